# cmake -DLIST=FILE -DOUT=FILE.cpp -P HashSources.cmake: hashes the files that LIST names, one a
# line, by name and content; their folders do not count.
file(STRINGS ${LIST} sources)
set(lines "")
foreach(source ${sources})
  get_filename_component(name ${source} NAME)
  file(SHA256 ${source} hash)
  list(APPEND lines "${name} ${hash}")
endforeach()
list(SORT lines)
string(SHA256 hash "${lines}")
string(SUBSTRING ${hash} 0 16 hash)
file(WRITE ${OUT} "#include \"sources.h\"\n\n\
extern \"C\" __attribute__((visibility(\"default\"))) const char* attacca_templates_sources() {\n\
  return \"${hash}\";\n\
}\n")
