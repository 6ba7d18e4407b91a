package lint

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Finding is one place that breaks a rule.
type Finding struct {
	File string // relative to the root, with slashes
	Line int
	Rule string
	// Reason says what is wrong and what to do instead.
	Reason string
}

// String is the finding on one line, in the form that editors follow.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.Rule, f.Reason)
}

// Check applies every rule to the Go files below root and returns the findings in order of place. The error says
// that a file cannot be read or parsed.
func Check(root fs.FS, rules Rules) ([]Finding, error) {
	dirs, err := load(root)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, files := range dirs {
		for _, f := range files {
			found = slices.Concat(found, rules.imports(f), rules.size(f), rules.forms(f))
		}
		found = append(found, packageVars(files)...)
	}
	found = append(found, rules.stale(dirs)...)
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule))
	})
	return found, nil
}

// file is one parsed Go file.
type file struct {
	path  string // relative to the root, with slashes
	dir   string
	test  bool
	lines int
	fset  *token.FileSet
	ast   *ast.File
	names map[string]string // local name -> import path
}

func (f *file) find(n ast.Node, rule, format string, args ...any) Finding {
	return Finding{File: f.path, Line: f.fset.Position(n.Pos()).Line, Rule: rule, Reason: fmt.Sprintf(format, args...)}
}

// load parses the Go files below root, by directory. It leaves out testdata and hidden folders, as the go command
// does, and other modules.
func load(root fs.FS) (map[string][]*file, error) {
	dirs := map[string][]*file{}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipDir(root, name):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		f, err := parse(root, name)
		if err != nil {
			return err
		}
		dirs[f.dir] = append(dirs[f.dir], f)
		return nil
	})
	return dirs, err
}

func skipDir(root fs.FS, name string) bool {
	if name == "." {
		return false
	}
	base := path.Base(name)
	if base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := fs.Stat(root, path.Join(name, "go.mod"))
	return err == nil
}

func parse(root fs.FS, name string) (*file, error) {
	src, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, err
	}
	f := &file{
		path: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"),
		lines: bytes.Count(src, []byte("\n")), fset: token.NewFileSet(), names: map[string]string{},
	}
	f.ast, err = parser.ParseFile(f.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, spec := range f.ast.Imports {
		f.names[localName(spec)] = importPath(spec)
	}
	return f, nil
}

func importPath(spec *ast.ImportSpec) string {
	p, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
	return p
}

// localName is what the file calls an import. Without the package at hand it is told from the path, by the customs
// of those that differ from its last element: example.com/go-thing/v2 is thing.
func localName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	p := importPath(spec)
	if rest, last := path.Split(p); majorVersion.MatchString(last) {
		p = path.Clean(rest)
	}
	return strings.TrimPrefix(path.Base(p), "go-")
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// pkgMember returns "path.Name" when e names a member of an imported package, "" otherwise.
func (f *file) pkgMember(e ast.Expr) string {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok || f.names[x.Name] == "" {
		return ""
	}
	return f.names[x.Name] + "." + sel.Sel.Name
}
