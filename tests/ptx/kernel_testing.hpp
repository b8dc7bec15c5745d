// Small kernels around a body, for the analysis and for fusing.
#pragma once

#include <string>
#include <string_view>

namespace attacca::ptx::testing {

// In the body: %rd1 is `in`, %rd2 `out`, %rd3 a byte offset, %rd4 in + it, %rd5 out + it, %f1 a
// value read from `in`, %r1 the thread. `before` stands before the kernel.
inline std::string kernel_around(std::string_view body, std::string_view before = {},
                                 std::string_view target = "sm_80") {
  std::string text = ".version 8.0\n.target ";
  text += target;
  text += "\n.address_size 64\n\n.global .align 8 .b64 hidden;\n.extern .func vprintf ();\n";
  text += before;
  text += R"(
.visible .entry k(
	.param .u64 in,
	.param .u64 out,
	.param .u32 n,
	.param .align 8 .b8 args[24],
	.param .u64 other
)
{
	.reg .pred %p<9>;
	.reg .b16 %rs<9>;
	.reg .b32 %r<19>;
	.reg .f32 %f<9>;
	.reg .f64 %fd<9>;
	.reg .b64 %rd<39>;
	.shared .align 8 .b8 cell[8];
	ld.param.u64 %rd1, [in];
	ld.param.u64 %rd2, [out];
	ld.param.u32 %r2, [n];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 4;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd5, %rd2, %rd3;
	ld.global.f32 %f1, [%rd4];
)";
  text += body;
  return text + "\n\tret;\n}\n";
}

}  // namespace attacca::ptx::testing
