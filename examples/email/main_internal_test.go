package main

import (
	"bytes"
	"testing"

	"offstage/internal/redistest"
)

var server *redistest.Server

func TestMain(m *testing.M) { redistest.Main(m, &server) }

func TestRun(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), server.FreshDB(t), &out); err != nil {
		t.Fatal(err)
	}
	want := "ada@example.org: completed\nnobody: failed: \"nobody\" is not an address\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
