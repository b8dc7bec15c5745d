# attacca_hash_sources(OUT IN FILES...): writes OUT, which is IN with a hash of the files instead of
# @HASH@.
function(attacca_hash_sources OUT IN)
  set(script ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/WriteHash.cmake)
  list(JOIN ARGN "\n" lines)
  file(CONFIGURE OUTPUT ${OUT}.list CONTENT "${lines}" @ONLY)
  add_custom_command(
    OUTPUT ${OUT}
    COMMAND ${CMAKE_COMMAND} -DLIST=${OUT}.list -DIN=${IN} -DOUT=${OUT} -P ${script}
    DEPENDS ${ARGN} ${OUT}.list ${IN} ${script}
    COMMENT "Hashing sources into ${OUT}"
    VERBATIM)
endfunction()
