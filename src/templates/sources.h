/* The export of libattacca_templates.so beside attacca_templates_open (abi.h). */
#ifndef ATTACCA_TEMPLATES_SOURCES_H_
#define ATTACCA_TEMPLATES_SOURCES_H_

#ifdef __cplusplus
extern "C" {
#endif

/* 16 hexadecimal digits: a hash of the sources of kernels and builders and of CUTLASS's version.
 * Kernels and builders of equal sources fit each other, whatever compilers built them. Libraries of
 * earlier versions lack this function. */
const char* attacca_templates_sources(void);

#ifdef __cplusplus
}
#endif
#endif
