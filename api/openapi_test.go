package api_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"offstage/api"
	"offstage/queue"
	"offstage/tasks"
)

type schema struct {
	Properties map[string]any
	Enum       []string
}

type openAPI struct {
	Paths      map[string]map[string]any
	Components struct {
		Schemas map[string]schema
	}
}

func readOpenAPI(t *testing.T) (openAPI, map[string]any) {
	t.Helper()
	b, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc openAPI
	var raw map[string]any
	for _, into := range []any{&doc, &raw} {
		if err := yaml.Unmarshal(b, into); err != nil {
			t.Fatal(err)
		}
	}
	return doc, raw
}

// Every route is described, and everything described is a route.
func TestOpenAPI_Routes(t *testing.T) {
	t.Parallel()
	doc, _ := readOpenAPI(t)
	var described []string
	for path, item := range doc.Paths {
		for _, method := range []string{"get", "post", "put", "patch", "delete", "head", "options"} {
			if _, ok := item[method]; ok {
				described = append(described, strings.ToUpper(method)+" "+path)
			}
		}
	}
	var served []string
	for _, p := range serverOf(t, newFake(), api.Config{Metrics: http.NotFoundHandler(), Monitoring: http.NotFoundHandler()}).Patterns() {
		if !strings.Contains(p, " ") { // asynqmon takes every method
			p = "GET " + p
		}
		served = append(served, p)
	}
	slices.Sort(described)
	slices.Sort(served)
	if diff := cmp.Diff(served, described); diff != "" {
		t.Errorf("openapi.yaml (-served +described):\n%s", diff)
	}
}

// The schemas have the fields that the types have.
func TestOpenAPI_Fields(t *testing.T) {
	t.Parallel()
	doc, _ := readOpenAPI(t)
	for name, typ := range map[string]reflect.Type{
		"Task": reflect.TypeFor[tasks.Task](), "Event": reflect.TypeFor[tasks.Event](), "Error": reflect.TypeFor[tasks.Error](),
		"Parent": reflect.TypeFor[tasks.Parent](), "Notify": reflect.TypeFor[tasks.Notify](),
		"Backoff": reflect.TypeFor[tasks.Backoff](), "Queue": reflect.TypeFor[queue.Info](),
		"Worker": reflect.TypeFor[queue.WorkerInfo](), "Problem": reflect.TypeFor[api.Problem](),
	} {
		described := slices.Sorted(maps.Keys(doc.Components.Schemas[name].Properties))
		if diff := cmp.Diff(jsonNames(typ), described); diff != "" {
			t.Errorf("schema %s (-type +described):\n%s", name, diff)
		}
	}
}

// jsonNames are the names of typ's fields in JSON, sorted.
func jsonNames(typ reflect.Type) []string {
	var names []string
	for _, f := range reflect.VisibleFields(typ) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// A spec with any of the described fields is understood, and no other.
func TestOpenAPI_Spec(t *testing.T) {
	t.Parallel()
	doc, _ := readOpenAPI(t)
	examples := map[string]any{
		"type": "t", "payload": 1, "owner": "o", "name": "n", "description": "d", "queue": "q", "metadata": map[string]string{},
		"parent": map[string]string{}, "max_retries": 1, "backoff": map[string]string{"base": "1s"}, "timeout": "1s",
		"deadline": "2030-01-01T00:00:00Z", "run_at": "2029-01-01T00:00:00Z", "delay": "1s", "notify": map[string]any{},
		"retention": "1h",
	}
	described := slices.Sorted(maps.Keys(doc.Components.Schemas["Spec"].Properties))
	if diff := cmp.Diff(slices.Sorted(maps.Keys(examples)), described); diff != "" {
		t.Errorf("schema Spec (-understood +described):\n%s", diff)
	}
	for _, name := range described {
		b, _ := json.Marshal(map[string]any{name: examples[name]})
		if err := json.Unmarshal(b, &tasks.Spec{}); err != nil {
			t.Errorf("%s: %v", b, err)
		}
	}
}

func TestOpenAPI_Enums(t *testing.T) {
	t.Parallel()
	doc, _ := readOpenAPI(t)
	var statuses []string
	for _, s := range tasks.Statuses() {
		statuses = append(statuses, string(s))
	}
	if diff := cmp.Diff(statuses, doc.Components.Schemas["Status"].Enum); diff != "" {
		t.Errorf("schema Status (-type +described):\n%s", diff)
	}
	code := doc.Components.Schemas["Problem"].Properties["code"].(map[string]any)["enum"].([]any)
	for _, c := range tasks.Codes() {
		if !slices.Contains(code, any(c.Code)) {
			t.Errorf("schema Problem: code has no %s", c.Code)
		}
	}
}

// Every reference leads somewhere.
func TestOpenAPI_References(t *testing.T) {
	t.Parallel()
	_, raw := readOpenAPI(t)
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok && !resolves(raw, ref) {
				t.Errorf("%s leads nowhere", ref)
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(raw)
}

func resolves(doc map[string]any, ref string) bool {
	var at any = doc
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		m, ok := at.(map[string]any)
		if !ok {
			return false
		}
		at = m[part]
	}
	return at != nil
}
