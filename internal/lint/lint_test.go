package lint_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"offstage/internal/lint"
)

// TestRepository is the linter: it applies the rules to this repository.
func TestRepository(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	found, err := lint.Check(root, lint.ForRepository())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Error(f)
	}
}

// TestCheck_Imports shows each arrow and each library's place refused, and its neighbours accepted.
func TestCheck_Imports(t *testing.T) {
	t.Parallel()
	cases := []struct {
		file, imported string
		want           string // part of the reason; empty when it is allowed
	}{
		{"queue/a.go", "offstage/tasks", ""},
		{"queue/a.go", "offstage/queue/bridge", ""},
		{"queue/a.go", "offstage/worker", "downward"},
		{"queue/bridge/a.go", "offstage/queue", "downward"},
		{"tasks/a.go", "offstage/queue", "downward"},
		{"tasks/a.go", "github.com/oklog/ulid/v2", "standard library"},
		{"tasks/a.go", "encoding/json", ""},
		{"tasks/a_test.go", "github.com/google/go-cmp/cmp", ""},
		{"tasks/a_test.go", "offstage/tasks", ""},
		{"tasks/a_test.go", "offstage/queue", "downward"},
		{"tasks/exec/a.go", "offstage/tasks", ""},
		{"tasks/exec/a.go", "offstage/tasks/httpcall", "downward"},
		{"tasks/exec/a.go", "offstage/worker", "downward"},
		{"tasks/httpcall/a.go", "offstage/internal/strictjson", ""},
		{"client/a.go", "offstage/tasks", ""},
		{"client/a.go", "offstage/queue", "downward"},
		{"client/a.go", "github.com/oklog/ulid/v2", "standard library"},
		{"api/a.go", "offstage/queue", ""},
		{"api/a.go", "offstage/worker", "downward"},
		{"worker/a.go", "offstage/api", "downward"},
		{"worker/a.go", "offstage/metrics", "downward"},
		{"api/a.go", "offstage/config", "only cmd reads"},
		{"api/a_test.go", "offstage/config", "only cmd reads"},
		{"cmd/offstage/a.go", "offstage/config", ""},
		{"config/a_test.go", "offstage/config", ""},
		{"api/a.go", "offstage/cmd/offstage", "cmd connects"},
		{"api/a.go", "offstage/internal/redistest", "downward"},
		{"api/a_test.go", "offstage/internal/redistest", ""},
		{"examples/email/a.go", "offstage/worker", ""},
		{"examples/email/a.go", "offstage/api", "downward"},

		{"queue/a.go", "github.com/hibiken/asynq", ""},
		{"queue/bridge/a.go", "github.com/hibiken/asynq", ""},
		{"worker/a.go", "github.com/hibiken/asynq", ""},
		{"api/a.go", "github.com/hibiken/asynq", "engine"},
		{"metrics/a.go", "github.com/hibiken/asynq/x/rate", "engine"},
		{"cmd/offstage/a.go", "github.com/hibiken/asynq", "engine"},
		{"api/a.go", "github.com/hibiken/asynqmon", ""},
		{"cmd/offstage/a.go", "github.com/hibiken/asynqmon", "HTTP API"},
		{"queue/a.go", "github.com/redis/go-redis/v9", ""},
		{"internal/redistest/a.go", "github.com/redis/go-redis/v9", ""},
		{"internal/embedded/a.go", "github.com/redis/go-redis/v9", ""},
		{"worker/a.go", "github.com/redis/go-redis/v9", "belongs to queue"},
		{"worker/a_test.go", "github.com/redis/go-redis/v9", ""},
		{"metrics/a.go", "github.com/prometheus/client_golang/prometheus", ""},
		{"worker/a.go", "github.com/prometheus/client_golang/prometheus", "observer"},
		{"config/a.go", "github.com/spf13/viper", ""},
		{"cmd/offstage/a.go", "github.com/spf13/viper", "parsed values"},
		{"cmd/offstage/a.go", "github.com/spf13/cobra", ""},
		{"config/a.go", "github.com/spf13/cobra", "command line"},

		{"utils/a.go", "fmt", "not on the map"},
	}
	for _, c := range cases {
		t.Run(c.file+" "+c.imported, func(t *testing.T) {
			t.Parallel()
			got := check(t, c.file, fmt.Sprintf("package p\n\nimport _ %q\n", c.imported))
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("findings = %v, want none", got)
			case c.want != "" && (len(got) != 1 || got[0].Rule != "import" || !strings.Contains(got[0].Reason, c.want)):
				t.Errorf("findings = %v, want one of rule import with %q", got, c.want)
			}
		})
	}
}

// TestCheck_Forms shows the other rules refuse what they are for and leave its neighbours alone.
func TestCheck_Forms(t *testing.T) {
	t.Parallel()
	const head = "package queue\n\nimport (\n\t\"errors\"\n\t\"regexp\"\n\t\"sync\"\n\t\"sync/atomic\"\n\t\"testing\"\n\t\"time\"\n)\n\n"
	cases := []struct {
		name, file, body string
		want             string // the rule; empty when it is allowed
	}{
		{"Init", "queue/a.go", "func init() {}", "init"},
		{"InitInTest", "queue/a_test.go", "func init() {}", "init"},
		{"InitMethod", "queue/a.go", "type x int\n\nfunc (x) init() {}", ""},

		{"Sleep", "queue/a.go", "func f() { time.Sleep(1) }", "sleep"},
		{"SleepAsValue", "queue/a.go", "var f = time.Sleep", "sleep"},
		{"SleepInTest", "queue/a_test.go", "func f() { time.Sleep(1) }", ""},
		{"OtherSleep", "queue/a.go", "func f(x interface{ Sleep(int) }) { x.Sleep(1) }", ""},

		{"Go", "queue/a.go", "func f() { go f() }", "goroutine"},
		{"GoNested", "queue/a.go", "func f() { func() { go f() }() }", "goroutine"},
		{"GoInTest", "queue/a_test.go", "func f() { go f() }", ""},
		{"WaitGroup", "queue/a.go", "func f(wg *sync.WaitGroup) { wg.Go(func() {}) }", ""},

		{"Skip", "queue/a_test.go", "func TestX(t *testing.T) { t.Skip() }", "skip"},
		{"Skipf", "queue/a_test.go", "func TestX(t *testing.T) { t.Skipf(``) }", "skip"},
		{"SkipNow", "queue/a_test.go", "func x(tb testing.TB) { tb.SkipNow() }", "skip"},
		{"SkipInSubtest", "queue/a_test.go", "func TestX(t *testing.T) { t.Run(``, func(q *testing.T) { q.Skip() }) }", "skip"},
		{"SkipOfReader", "queue/a.go", "func f(r interface{ Skip() }) { r.Skip() }", ""},
		{"Skipped", "queue/a_test.go", "func TestX(t *testing.T) { _ = t.Skipped() }", ""},

		{"VarError", "queue/a.go", "var ErrX = errors.New(``)", ""},
		{"VarRegexp", "queue/a.go", "var re = regexp.MustCompile(``)", ""},
		{"VarTable", "queue/a.go", "var table = map[string]int{`a`: 1}\n\nfunc f() int { return table[`a`] }", ""},
		{"VarAssertion", "queue/a.go", "var _ sync.Locker = (*sync.Mutex)(nil)", ""},
		{"VarEmbed", "queue/a.go", "//go:embed x.lua\nvar script string", ""},
		{"VarEmbedInGroup", "queue/a.go", "var (\n\t//go:embed x.lua\n\tscript string\n)", ""},
		{"VarVersion", "queue/a.go", "var version = `dev`", ""},
		{"VarOnce", "queue/a.go", "var once = sync.OnceValue(func() int { return 1 })", ""},
		{"VarOwnCall", "queue/a.go", "var re = load(`a`)\n\nfunc load(s string) *regexp.Regexp { return regexp.MustCompile(s) }", ""},
		{"VarOwnCallOfState", "queue/a.go", "var m = load()\n\nfunc load() map[string]int { return nil }", "state"},
		{"VarInTest", "queue/a_test.go", "var server *int", ""},
		{"VarInFunction", "queue/a.go", "func f() { var n int; n++ }", ""},
		{"VarEmpty", "queue/a.go", "var n int", "state"},
		{"VarMutex", "queue/a.go", "var mu sync.Mutex", "state"},
		{"VarMutexLiteral", "queue/a.go", "var mu = sync.Mutex{}", "state"},
		{"VarAtomic", "queue/a.go", "var n = atomic.Int64{}", "state"},
		{"VarPointer", "queue/a.go", "var p = &struct{ n int }{}", "state"},
		{"VarMake", "queue/a.go", "var m = make(map[string]int)", "state"},
		{"VarCall", "queue/a.go", "var p = newPool()", "state"},
		{"VarAssigned", "queue/a.go", "var n = 1\n\nfunc f() { n = 2 }", "state"},
		{"VarStepped", "queue/a.go", "var n = 1\n\nfunc f() { n++ }", "state"},
		{"VarIndexed", "queue/a.go", "var m = map[string]int{}\n\nfunc f() { m[`a`] = 1 }", "state"},
		{"VarDeleted", "queue/a.go", "var m = map[string]int{`a`: 1}\n\nfunc f() { delete(m, `a`) }", "state"},
		{"VarField", "queue/a.go", "var x = struct{ n int }{}\n\nfunc f() { x.n = 1 }", "state"},
		{"VarAddress", "queue/a.go", "var n = 1\n\nfunc f() *int { return &n }", "state"},

		{"Long", "queue/a.go", strings.Repeat("\n", 600), "size"},
		{"LongEnough", "queue/a.go", strings.Repeat("\n", 580), ""},
		{"LongTest", "queue/a_test.go", strings.Repeat("\n", 1000), "size"},
		{"LongEnoughTest", "queue/a_test.go", strings.Repeat("\n", 980), ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var want []string
			if c.want != "" {
				want = []string{c.want}
			}
			if diff := cmp.Diff(want, ruleNames(check(t, c.file, head+c.body+"\n"))); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCheck_WriteInAnotherFile shows a table spoiled by another file of its package.
func TestCheck_WriteInAnotherFile(t *testing.T) {
	t.Parallel()
	got := checkAll(t, lint.ForRepository(), map[string]string{
		"queue/a.go": "package queue\n\nvar table = map[string]int{}\n",
		"queue/b.go": "package queue\n\nfunc f() { table[`a`] = 1 }\n",
		"tasks/b.go": "package tasks\n\nvar table = map[string]int{}\n",
	})
	want := []string{"queue/a.go:3: state: package-level variable table is written to: make it a field of what uses it"}
	if diff := cmp.Diff(want, text(got)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestCheck_AllowedGoroutine(t *testing.T) {
	t.Parallel()
	const src = "package queue\n\nfunc f() { go f() }\n"
	rules := lint.ForRepository()
	rules.Goroutines = map[string]string{"queue/a.go": "reason", "queue/gone.go": "reason"}
	got := checkAll(t, rules, map[string]string{"queue/a.go": src, "queue/b.go": src})
	places := make([]string, len(got))
	for i, f := range got {
		places[i] = fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Rule)
	}
	want := []string{"queue/b.go:3 goroutine", "queue/gone.go:1 goroutine"}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// TestCheck_Elsewhere shows which files are none of its business.
func TestCheck_Elsewhere(t *testing.T) {
	t.Parallel()
	const bad = "package p\n\nfunc init() {}\n"
	got := checkAll(t, lint.ForRepository(), map[string]string{
		"queue/testdata/a.go": bad,
		"vendor/x/a.go":       bad,
		".git/a.go":           bad,
		"tools/go.mod":        "module tools\n",
		"tools/a.go":          bad,
		"queue/a.txt":         bad,
	})
	if len(got) > 0 {
		t.Errorf("findings = %v, want none", got)
	}
}

func TestCheck_BrokenFile(t *testing.T) {
	t.Parallel()
	_, err := lint.Check(fstest.MapFS{"queue/a.go": {Data: []byte("package")}}, lint.ForRepository())
	if err == nil || !strings.Contains(err.Error(), "queue/a.go") {
		t.Errorf("Check of a file that does not parse = %v, want an error that names it", err)
	}
}

func check(t *testing.T, file, src string) []lint.Finding {
	t.Helper()
	return checkAll(t, lint.ForRepository(), map[string]string{file: src})
}

func checkAll(t *testing.T, rules lint.Rules, files map[string]string) []lint.Finding {
	t.Helper()
	tree := fstest.MapFS{}
	for name, src := range files {
		tree[name] = &fstest.MapFile{Data: []byte(src)}
	}
	found, err := lint.Check(tree, rules)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// ruleNames returns the rules that were broken, each once.
func ruleNames(found []lint.Finding) []string {
	names := map[string]bool{}
	for _, f := range found {
		names[f.Rule] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func text(found []lint.Finding) []string {
	lines := make([]string, len(found))
	for i, f := range found {
		lines[i] = f.String()
	}
	return lines
}
