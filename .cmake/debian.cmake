# Run by cpack between staging and packing: what Debian wants in every package beside its files, a
# copyright, a changelog, and compressed manual pages.
set(apache "/usr/share/common-licenses/Apache-2.0")
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component})
    string(TOUPPER ${component} upper)
    set(doc ${root}/usr/share/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
    file(MAKE_DIRECTORY ${doc})

    file(WRITE ${doc}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: singa-ws

Files: *
Copyright: 2026 The singa-ws authors
License: Apache-2.0
 On Debian systems the full text of the Apache License 2.0 is in ${apache}.
")
    file(REMOVE ${doc}/LICENSE) # the same text
    file(WRITE ${doc}/changelog "singa-ws (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")

    if(component STREQUAL library)
        # A folder that OpenBLAS's OpenMP build has for itself, and a module that calls nothing of libc.
        file(WRITE ${root}/usr/share/lintian/overrides/${CPACK_DEBIAN_LIBRARY_PACKAGE_NAME}
            "custom-library-search-path RUNPATH */openblas-openmp *singa_blas.so*
library-not-linked-against-libc *singa_blas.so*
")
    endif()

    file(GLOB pages ${root}/usr/share/man/man*/*.[1-8])
    execute_process(COMMAND gzip -9nf ${doc}/changelog ${pages} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
