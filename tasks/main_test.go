package tasks_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"offstage/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is the moment at which the tests validate.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// encode gives v's JSON.
func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("Marshal(%+v): %v", v, err)
	}
	return string(b)
}

// fields lists the fields that an error names, sorted: those of every *InvalidError in it.
func fields(err error) []string {
	var found []string
	var walk func(error)
	walk = func(err error) {
		switch e := err.(type) { //nolint:errorlint // it walks the tree itself, to find more than the first
		case nil:
		case *tasks.InvalidError:
			found = append(found, e.Field)
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				walk(inner)
			}
		default:
			walk(errors.Unwrap(err))
		}
	}
	walk(err)
	slices.Sort(found)
	return found
}
