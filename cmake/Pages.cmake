# Pages: web/NAME.html and the files it includes become one self-contained page, embedded in the library as the bytes of
# hm_page_NAME (generated/page_NAME.h). Plain CMake: building needs no node. How the parts are joined: cmake/EmbedPage.cmake.
#
# hm_add_page(NAME SOURCE...): SOURCE are the files that NAME.html includes, relative to web/ or to the npm packages.
set(HM_NPM ${HM_DEPS}/node_modules)
function(hm_add_page name)
  set(sources ${CMAKE_SOURCE_DIR}/web/${name}.html)
  foreach(source ${ARGN})
    if(EXISTS ${CMAKE_SOURCE_DIR}/web/${source})
      list(APPEND sources ${CMAKE_SOURCE_DIR}/web/${source})
    else()
      list(APPEND sources ${HM_NPM}/${source})
    endif()
  endforeach()
  set(header ${CMAKE_BINARY_DIR}/generated/page_${name}.h)
  add_custom_command(OUTPUT ${header}
    COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DWEB=${CMAKE_SOURCE_DIR}/web -DNPM=${HM_NPM} -DHEADER=${header}
            -P ${CMAKE_SOURCE_DIR}/cmake/EmbedPage.cmake
    DEPENDS ${sources} ${CMAKE_SOURCE_DIR}/cmake/EmbedPage.cmake VERBATIM)
  target_sources(hm_objects PRIVATE ${header})
endfunction()

set(HM_PAGE_SHARED style.css page.js format.js plot.js)
hm_add_page(report ${HM_PAGE_SHARED} report.css colors.js unpack.js heatmap.js series.js bars.js causes.js timeline.js report.js
            uplot/dist/uPlot.iife.min.js uplot/dist/uPlot.min.css uplot/LICENSE)
hm_add_page(fleet ${HM_PAGE_SHARED} bars.js fleet.css fleet.js)
hm_add_page(tor ${HM_PAGE_SHARED} tor.css tor.js)
