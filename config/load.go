package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// Source is where Load looks. The zero value gives the defaults.
type Source struct {
	// File is the path of a YAML, TOML or JSON file, told apart by its extension. Empty means no file.
	File string
	// Flags are flags registered with [Flags] and parsed; only those that were given count. Nil means none.
	Flags *pflag.FlagSet
	// Environ is the environment, as from os.Environ. Nil means none.
	Environ []string
}

// Load reads and validates the configuration. Its error is a [Faults] with everything that is wrong; the Config is
// then what could be read, with defaults for the rest.
func Load(src Source) (Config, error) {
	c, _, err := Explain(src)
	return c, err
}

// Explain is Load that also tells where each value came from.
func Explain(src Source) (Config, Sources, error) {
	all := settings()
	file, env, flags := fromFile(all, src.File), fromEnviron(all, src.Environ), fromFlags(all, src.Flags)
	faults := slices.Concat(file.faults, env.faults, flags.faults)

	c, sources := Default(), Sources{}
	for _, s := range all {
		sources[s.key] = "default"
	}
	for key, v := range stack(file, env, flags) {
		s, _ := find(all, key)
		sources[key] = v.source
		text, err := v.resolve()
		if err == nil {
			err = s.set(&c, text)
		}
		if err != nil {
			faults = append(faults, faultsOf(key, v.source, err)...)
		}
	}
	return c, sources, append(faults, c.check(sources, faults)...).err()
}

// stack lays the layers over each other, the last one on top, and gives what is seen from above.
func stack(file, env, flags layer) map[string]value {
	v := viper.New()
	for key, val := range file.values {
		v.SetDefault(key, val)
	}
	for _, l := range []layer{env, flags} {
		for key, val := range l.values {
			v.Set(key, val)
		}
	}
	seen := map[string]value{}
	for _, l := range []layer{file, env, flags} {
		for key := range maps.Keys(l.values) {
			if val, ok := v.Get(key).(value); ok {
				seen[key] = val
			}
		}
	}
	return seen
}

// broken reports whether key, or something in it, has a fault already.
func broken(faults Faults, key string) bool {
	return slices.ContainsFunc(faults, func(f *Fault) bool {
		rest, ok := strings.CutPrefix(f.Key, key)
		return ok && (rest == "" || rest[0] == '[' || rest[0] == '_' || rest[0] == '.')
	})
}
