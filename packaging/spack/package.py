"""Spack recipe of Kedge: copy it to packages/kedge/package.py of a Spack repository of your own.

There is no released archive yet, so that the recipe builds from a checkout: in an environment,
`spack add kedge`, `spack develop --path CHECKOUT kedge@main`, `spack install`. Each library that
the build asks for stands here, too, or tests/house/test_options.py fails. Libraries that are
loaded later, such as libcurl, are found by the RPATH that Spack gives to all of them. The Python
bindings come with `pip install CHECKOUT`.
"""

from spack.package import *

try:
    from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
except ImportError:
    pass  # Before Spack 1.0 spack.package has both.


class Kedge(CMakePackage):
    """Kedge is a multilevel asynchronous checkpoint/restart runtime: an application is blocked
    only while its memory is copied to node-local storage, and an agent on the node carries the
    checkpoint on to external storage."""

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("mpi", default=True, description="Build libkedge-mpi and the benchmark")
    variant("fortran", default=True, description="Build the Fortran modules")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")

    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")

    depends_on("c-blosc@1.21:")
    depends_on("curl@7.68:")
    depends_on("fmt@9:")
    depends_on("isa-l@2.30:")
    depends_on("libfabric@1.17:")
    depends_on("liburing@2.3:")
    depends_on("openssl@3:")
    depends_on("pugixml@1.11:")
    depends_on("xxhash@0.8:")
    depends_on("cli11@2.1:", type="build")
    depends_on("nlohmann-json@3.11:", type="build")
    depends_on("tomlplusplus@3.3:", type="build")
    depends_on("mpi", when="+mpi")

    # `kedge plan` and `kedge run` are Python programs.
    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-numpy@1.24:", type="run")
    depends_on("py-scipy@1.10:", type="run")
    depends_on("py-matplotlib@3.6:", type="run")

    conflicts("platform=darwin", msg="Kedge needs Linux: futexes, pidfds and io_uring")
    conflicts("platform=windows", msg="Kedge needs Linux: futexes, pidfds and io_uring")

    generator("ninja")

    def cmake_args(self):
        return [
            self.define("KEDGE_BUILD_TESTS", False),
            self.define("KEDGE_BUILD_EXAMPLES", False),
            self.define("KEDGE_WARNINGS_AS_ERRORS", False),
            # It is where nothing else would look for it.
            self.define("KEDGE_LINK_FABRIC", True),
            # Spack's one MPI, whichever it is, is the default one.
            self.define("KEDGE_WITH_MPICH", False),
            self.define("KEDGE_WITH_LAMMPS", False),
            self.define("KEDGE_WITH_MAN", False),
            self.define("KEDGE_WITH_PYTHON", False),
            self.define_from_variant("KEDGE_WITH_MPI", "mpi"),
            self.define_from_variant("KEDGE_WITH_FORTRAN", "fortran"),
        ]
