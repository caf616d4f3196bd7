// Package conf fills one struct from flags, the environment (PAWL_…) and a YAML file, in that order of precedence, and
// prints help and usage errors. It configures kong in the same way for every program of the suite. It knows no setting.
package conf

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/alecthomas/kong"
)

// envPrefix begins the name of every environment variable: --http-addr is PAWL_HTTP_ADDR.
const envPrefix = "PAWL"

// builtin are the flags that every program has.
type builtin struct {
	Config  kong.ConfigFlag  `placeholder:"FILE" help:"YAML file with settings, named like the flags."`
	Version kong.VersionFlag `env:"-" help:"Show the version and exit."`
}

// Parse fills target, a pointer to a struct with kong's tags, from args (without the program's name). Help, the version
// and usage errors are printed and end the process, as kong does. An error means that target itself is wrong.
func Parse(name, description string, target any, args []string) error {
	if err := parse(target, args, Options(name, description)); err != nil {
		return fmt.Errorf("the settings of %s: %w", name, err)
	}
	return nil
}

func parse(target any, args []string, options []kong.Option) error {
	k, err := kong.New(target, options...)
	if err != nil {
		return err
	}
	_, err = k.Parse(args)
	k.FatalIfErrorf(err)
	return nil
}

// Options returns the options for programs that call kong themselves, such as one with subcommands. They add the flags
// --config and --version.
func Options(name, description string) []kong.Option {
	return []kong.Option{
		kong.Name(name),
		kong.Description(description),
		kong.Embed(&builtin{}),
		kong.DefaultEnvars(envPrefix),
		kong.Configuration(loadYAML),
		kong.Vars{"version": name + " " + Version()},
		kong.ShortUsageOnError(),
		kong.Writers(os.Stdout, os.Stderr),
	}
}

// Version returns the version of the binary's main module, or `devel` with the commit if it has none.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	version := info.Main.Version
	if version != "" && version != "(devel)" {
		return version
	}
	version = "devel"
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			version += "+" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			version += "-dirty"
		}
	}
	return version
}
