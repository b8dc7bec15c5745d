# cmake -DLIST=FILE -DIN=FILE.in -DOUT=FILE -P WriteHash.cmake: puts a hash of the files that LIST
# names, one a line, where IN has @HASH@. Their names and contents count, their folders do not.
file(STRINGS ${LIST} sources)
set(lines "")
foreach(source ${sources})
  get_filename_component(name ${source} NAME)
  file(SHA256 ${source} hash)
  list(APPEND lines "${name} ${hash}")
endforeach()
list(SORT lines)
string(SHA256 HASH "${lines}")
string(SUBSTRING ${HASH} 0 16 HASH)
file(READ ${IN} text)
string(CONFIGURE "${text}" text @ONLY)
file(WRITE ${OUT} "${text}")  # also where nothing changed, so that it is newer than the sources
