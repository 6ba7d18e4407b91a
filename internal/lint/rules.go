package lint

import (
	"fmt"
	"maps"
	"slices"
)

// Rules is what [Check] holds a tree against. The zero value forbids every import inside the module.
type Rules struct {
	Module string
	// Packages is the map of the module: the folder of each package ("cmd/..." stands for all below cmd) and what it
	// may import. A package that is not on it is a finding, so that nobody adds one without placing it.
	Packages map[string]Arrows
	// Libraries keeps a library in the packages that it was chosen for.
	Libraries []Library
	// TestHelpers are packages that any test may import.
	TestHelpers []string
	// Goroutines allows `go` statements: file -> why nobody needs to wait for them there.
	Goroutines map[string]string

	MaxLines     int
	MaxTestLines int
}

// Arrows is what a package may import besides the standard library.
type Arrows struct {
	Own    []string // packages of the module, by folder; AnyPackage for all of them
	Stdlib bool     // no library at all, tests apart
}

// AnyPackage in [Arrows] stands for every package of the module.
const AnyPackage = "*"

// Library is a module that only some packages may import.
type Library struct {
	Path  string   // import path of the module; what lies below it is meant as well
	Only  []string // folders, like in Rules.Packages
	Tests bool     // any test may import it
	// Why is the reason, put after "only X may import it: ".
	Why string
}

// ForRepository returns the rules of this repository.
func ForRepository() Rules {
	return Rules{
		Module:       "offstage",
		Packages:     packages(),
		Libraries:    libraries(),
		TestHelpers:  []string{"internal/redistest", "internal/embedded", "internal/topology", "internal/tally"},
		Goroutines:   map[string]string{},
		MaxLines:     600,
		MaxTestLines: 1000,
	}
}

// packages is the picture of docs: arrows point downward, cmd -> {api, worker, metrics, config, client} -> queue ->
// tasks, and what stands side by side does not know of each other.
func packages() map[string]Arrows {
	handler := Arrows{Own: []string{"tasks", "internal/strictjson"}}
	return map[string]Arrows{
		"cmd/...":      {Own: []string{AnyPackage}},
		"examples/...": {Own: []string{"tasks", "tasks/exec", "tasks/httpcall", "queue", "worker", "client"}},

		"api":     {Own: []string{"tasks", "queue", "internal/strictjson"}},
		"worker":  {Own: []string{"tasks", "queue", "queue/bridge", "worker/spool"}},
		"metrics": {Own: []string{"tasks", "queue"}},
		"config":  {Own: []string{"tasks"}},
		"client":  {Own: []string{"tasks"}, Stdlib: true},

		"tasks/exec":     handler,
		"tasks/httpcall": handler,

		"worker/spool": {},

		"queue":        {Own: []string{"tasks", "queue/bridge"}},
		"queue/bridge": {Own: []string{"tasks"}},
		"tasks":        {Stdlib: true},

		"internal/embedded":   {},
		"internal/faults":     {Own: []string{"tasks", "client", "internal/redistest"}},
		"internal/lifecycle":  {Stdlib: true},
		"internal/redistest":  {},
		"internal/lint":       {Stdlib: true},
		"internal/topology":   {Own: []string{"tasks", "queue", "worker", "internal/redistest"}},
		"internal/strictjson": {Own: []string{"tasks"}, Stdlib: true},
		"internal/tally":      {Own: []string{"tasks"}, Stdlib: true},
	}
}

func libraries() []Library {
	return []Library{
		{
			Path: "github.com/hibiken/asynq", Only: []string{"queue", "queue/bridge", "worker", "internal/faults", "internal/topology"},
			Why: "asynq is the engine behind the bridge; elsewhere speak of tasks and queues",
		},
		{
			Path: "github.com/hibiken/asynqmon", Only: []string{"api"},
			Why: "the dashboard is a part of the HTTP API",
		},
		{
			Path: "github.com/redis/go-redis", Tests: true,
			Only: []string{"queue", "queue/bridge", "internal/redistest", "internal/embedded", "internal/faults", "internal/topology"},
			Why:  "every key and script belongs to queue; ask it for what you need",
		},
		{
			Path: "github.com/prometheus", Only: []string{"metrics"},
			Why: "others report to an observer interface of their own, which metrics implements by shape",
		},
		{
			Path: "github.com/spf13/viper", Only: []string{"config"},
			Why: "others get parsed values from cmd, never a key to look up",
		},
		{
			Path: "github.com/spf13/cobra", Only: []string{"cmd/..."},
			Why: "the command line is cmd's alone",
		},
	}
}

// stale reports allowances for files that are not there any more.
func (r Rules) stale(dirs map[string][]*file) []Finding {
	var found []Finding
	for _, name := range slices.Sorted(maps.Keys(r.Goroutines)) {
		there := false
		for _, files := range dirs {
			there = there || slices.ContainsFunc(files, func(f *file) bool { return f.path == name && hasGo(f) })
		}
		if !there {
			found = append(found, Finding{File: name, Line: 1, Rule: "goroutine",
				Reason: fmt.Sprintf("is on the list of allowed goroutines (%q) but has none: take it off", r.Goroutines[name])})
		}
	}
	return found
}
