module pawl.dev/tools/mutants

go 1.26.0
