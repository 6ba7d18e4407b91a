package tasks_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"slices"
	"strings"
	"testing"

	"offstage/tasks"
)

// TestCodes: every sentinel of errors.go is on the wire table, and the table gives each back.
func TestCodes(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	first := map[string]error{}
	for _, c := range tasks.Codes() {
		if c.Status < 400 || http.StatusText(c.Status) == "" || c.Code == "" || c.Code != strings.ToLower(c.Code) {
			t.Errorf("%v: status %d, code %q", c.Err, c.Status, c.Code)
		}
		if listed[c.Err.Error()] {
			t.Errorf("%v is listed twice", c.Err)
		}
		listed[c.Err.Error()] = true
		if known := first[c.Code]; known == nil {
			first[c.Code] = c.Err
		} else if !errors.Is(known, tasks.ErrNotFound) { // only a foreign task looks absent
			t.Errorf("code %q is shared by %v and %v", c.Code, known, c.Err)
		}
	}
	for name, text := range sentinels(t) {
		if !listed[text] {
			t.Errorf("%s is not in Codes", name)
		}
	}
}

// sentinels reads the texts of the Err variables of errors.go.
func sentinels(t *testing.T) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Err") {
			text := spec.Values[0].(*ast.CallExpr).Args[0].(*ast.BasicLit).Value
			found[spec.Names[0].Name] = strings.Trim(text, `"`)
		}
		return true
	})
	if len(found) < 13 {
		t.Fatalf("%d sentinels found in errors.go: %v", len(found), found)
	}
	return found
}

// TestCodes_Order: an error that is several things at once has the first entry's code, and that is the more telling one.
func TestCodes_Order(t *testing.T) {
	t.Parallel()
	code := func(err error) string {
		list := tasks.Codes()
		i := slices.IndexFunc(list, func(c tasks.Code) bool { return errors.Is(err, c.Err) })
		if i < 0 {
			return ""
		}
		return fmt.Sprint(list[i].Status, " ", list[i].Code)
	}
	invalid := &tasks.InvalidError{Field: "type", Reason: "is required"}
	tests := []struct {
		err  error
		want string
	}{
		{&tasks.TerminatedError{Status: tasks.Failed}, "409 terminated"},
		{invalid, "400 invalid"},
		{&tasks.InvalidError{Field: "payload", Sentinel: tasks.ErrTooLarge}, "413 too_large"},
		{errors.Join(invalid, &tasks.InvalidError{Field: "payload", Sentinel: tasks.ErrTooLarge}), "413 too_large"},
		{&tasks.InvalidError{Field: "name", Sentinel: tasks.ErrReservedName}, "422 reserved_name"},
		{fmt.Errorf("get: %w", tasks.ErrNotOwner), "404 not_found"},
		{fmt.Errorf("enqueue: %w: %w", tasks.ErrUnavailable, errors.New("EOF")), "503 unavailable"},
		{errors.New("surprise"), ""},
	}
	for _, tt := range tests {
		if got := code(tt.err); got != tt.want {
			t.Errorf("%v has %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestInvalidError(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]*tasks.InvalidError{
		"a: is b":            {Field: "a", Reason: "is b"},
		"a: is b (c to d)":   {Field: "a", Reason: "is b", Hint: "c to d"},
		"metadata.k: is bad": {Field: "metadata.k", Reason: "is bad", Sentinel: tasks.ErrTooLarge},
	} {
		if e.Error() != want {
			t.Errorf("Error() = %q, want %q", e.Error(), want)
		}
	}
	if got := (&tasks.TerminatedError{Status: tasks.Completed}).Error(); got != "task has ended: completed" {
		t.Errorf("Error() = %q", got)
	}
}
