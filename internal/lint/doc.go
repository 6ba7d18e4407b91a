// Package lint holds the rules of this repository that no general linter knows: which package may import which, how
// long a file may be, and a few forms that are not used here. Its own test applies them to the whole repository, so
// `go test ./internal/lint` fails with the place, the rule and the reason.
//
// The files are only parsed, never compiled: the rules hold for a tree that does not build, and cost well under a
// second.
package lint
