package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"offstage/config"
)

func newConfigCommand(a *app) *cobra.Command {
	cmd := newGroup("config", "Look at the configuration that a daemon would start with")
	cmd.AddCommand(newConfigPrintCommand(a), newConfigCheckCommand(a))
	return cmd
}

func newConfigPrintCommand(a *app) *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "print", Short: "Print the configuration as YAML, with where each value comes from and without secrets",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.format == "json" {
				return usagef("the configuration is printed as YAML only")
			}
			c, sources, err := config.Explain(from.source(a, cmd.Flags()))
			if err != nil {
				return err
			}
			return c.Print(a.stdout, sources)
		},
	}
	from.add(a, cmd.Flags())
	return cmd
}

func newConfigCheckCommand(a *app) *cobra.Command {
	var from configFlags
	cmd := &cobra.Command{
		Use: "check", Short: "Report everything that is wrong with the configuration", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := config.Load(from.source(a, cmd.Flags())); err != nil {
				return err
			}
			a.talk("the configuration is valid")
			return nil
		},
	}
	from.add(a, cmd.Flags())
	return cmd
}

// configFlags are the flags of every command that reads the daemon's configuration.
type configFlags struct{ file string }

func (f *configFlags) add(a *app, flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "config", a.env("OFFSTAGE_CONFIG"), "configuration file: YAML, TOML or JSON")
	config.Flags(flags)
}

// source is where the configuration comes from, once flags have been parsed.
func (f *configFlags) source(a *app, flags *pflag.FlagSet) config.Source {
	return config.Source{File: f.file, Flags: flags, Environ: a.environ}
}
