package lint

import (
	"go/ast"
	"go/token"
	"strings"
)

// packageVars finds package-level variables that are, or can become, shared mutable state: those that something in
// the package writes to, and those whose value is made to be changed. Tables, errors, compiled expressions and
// embedded files are fine as long as nobody writes to them. Tests may have such variables: a TestMain has no other
// way to hand its server on.
func packageVars(files []*file) []Finding {
	p := pkg{written: map[string]bool{}, constant: map[string]bool{}}
	for _, f := range files {
		if !f.test {
			p.survey(f)
		}
	}
	var found []Finding
	for _, f := range files {
		if f.test {
			continue
		}
		for _, decl := range f.ast.Decls {
			if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.VAR {
				found = append(found, p.declaredVars(f, gen)...)
			}
		}
	}
	return found
}

// pkg is what the check of a variable needs to know of the other files of its package.
type pkg struct {
	written  map[string]bool // names that something writes to
	constant map[string]bool // functions whose result never changes
}

func (p pkg) survey(f *file) {
	writes(f.ast, p.written)
	for _, decl := range f.ast.Decls {
		fun, ok := decl.(*ast.FuncDecl)
		if ok && fun.Recv == nil && fun.Type.Results.NumFields() == 1 {
			p.constant[fun.Name.Name] = constantType(f, fun.Type.Results.List[0].Type)
		}
	}
}

// constantType reports whether a value of the type never changes, whoever holds it.
func constantType(f *file, typ ast.Expr) bool {
	if id, ok := typ.(*ast.Ident); ok {
		switch id.Name {
		case "string", "error", "bool", "int", "int64", "float64":
			return true
		}
		return false
	}
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	switch f.pkgMember(typ) {
	case "regexp.Regexp", "strings.Replacer", "time.Duration", "time.Time", "github.com/redis/go-redis/v9.Script":
		return true
	}
	return false
}

func (p pkg) declaredVars(f *file, gen *ast.GenDecl) []Finding {
	var found []Finding
	for _, spec := range gen.Specs {
		spec := spec.(*ast.ValueSpec) // the parser puts nothing else under var
		for i, name := range spec.Names {
			var value ast.Expr
			if i < len(spec.Values) {
				value = spec.Values[i]
			}
			if reason := p.varReason(f, gen, spec, name.Name, value); reason != "" {
				found = append(found, f.find(name, "state",
					"package-level variable %s %s: make it a field of what uses it", name.Name, reason))
			}
		}
	}
	return found
}

// varReason says why a variable is state, or nothing.
func (p pkg) varReason(f *file, gen *ast.GenDecl, spec *ast.ValueSpec, name string, value ast.Expr) string {
	switch {
	case name == "_", embedded(gen.Doc), embedded(spec.Doc):
		return ""
	case p.written[name]:
		return "is written to"
	case value == nil && len(spec.Values) == 0:
		return "has no value, so something has to change it"
	}
	return p.valueReason(f, value)
}

func embedded(doc *ast.CommentGroup) bool {
	if doc == nil {
		return false
	}
	for _, c := range doc.List {
		if strings.HasPrefix(c.Text, "//go:embed ") {
			return true
		}
	}
	return false
}

// valueReason says why a value is made to be changed, or nothing.
func (p pkg) valueReason(f *file, value ast.Expr) string {
	switch v := value.(type) {
	case *ast.UnaryExpr:
		if v.Op == token.AND {
			return "points to something that can change"
		}
	case *ast.CompositeLit:
		typ := f.pkgMember(v.Type)
		if strings.HasPrefix(typ, "sync.") || strings.HasPrefix(typ, "sync/atomic.") {
			return "is a " + typ
		}
	case *ast.CallExpr:
		if fun := callee(f, v); !p.constant[fun] && !constantCall(fun) {
			return "is made by a call of " + fun + ", which may give something that can change"
		}
	}
	return ""
}

// callee names the function of a call: "path.Name" of another package, the bare name of one of this package.
func callee(f *file, call *ast.CallExpr) string {
	fun := call.Fun
	if generic, ok := fun.(*ast.IndexExpr); ok {
		fun = generic.X
	}
	if member := f.pkgMember(fun); member != "" {
		return member
	}
	if id, ok := fun.(*ast.Ident); ok {
		return id.Name
	}
	return "a function"
}

// constantCall reports whether a function gives a value that never changes.
func constantCall(fun string) bool {
	switch fun {
	case "errors.New", "fmt.Errorf", "fmt.Sprintf", "regexp.MustCompile", "strings.NewReplacer", "strings.Join",
		"strings.Repeat", "slices.Concat", "html/template.Must", "text/template.Must", "sync.OnceValue", "sync.OnceValues",
		"net/netip.MustParsePrefix", "net/netip.MustParseAddr", "time.Duration", "time.Date", "encoding/json.RawMessage",
		"github.com/redis/go-redis/v9.NewScript", "string", "len", "min", "max":
		return true
	}
	return false
}

// writes adds to written the names that are assigned to, stepped, deleted from or have their address taken anywhere
// in a function. A local variable of the same name counts as well: shadowing a package's table is no better.
func writes(tree *ast.File, written map[string]bool) {
	note := func(e ast.Expr) {
		if id := root(e); id != nil {
			written[id.Name] = true
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, e := range n.Lhs {
					note(e)
				}
			}
		case *ast.IncDecStmt:
			note(n.X)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				note(n.X)
			}
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 && (id.Name == "delete" || id.Name == "clear") {
				note(n.Args[0])
			}
		}
		return true
	})
}

// root is the variable behind a[i].b and the like, nil when it is something else.
func root(e ast.Expr) *ast.Ident {
	for {
		switch v := e.(type) {
		case *ast.Ident:
			return v
		case *ast.IndexExpr:
			e = v.X
		case *ast.SelectorExpr:
			e = v.X
		case *ast.ParenExpr:
			e = v.X
		case *ast.StarExpr:
			e = v.X
		case *ast.SliceExpr:
			e = v.X
		default:
			return nil
		}
	}
}
