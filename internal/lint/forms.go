package lint

import (
	"go/ast"
	"strings"
)

// size checks the length of f.
func (r Rules) size(f *file) []Finding {
	limit := r.MaxLines
	if f.test {
		limit = r.MaxTestLines
	}
	if f.lines <= limit {
		return nil
	}
	return []Finding{f.find(f.ast, "size", "%d lines, at most %d: split it by concept", f.lines, limit)}
}

// forms checks f for statements that are not used here.
func (r Rules) forms(f *file) []Finding {
	var found []Finding
	testing := testingNames(f)
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == "init" {
				found = append(found, f.find(n, "init", "no init functions: call it where it is needed"))
			}
		case *ast.GoStmt:
			if !f.test && r.Goroutines[f.path] == "" {
				found = append(found, f.find(n, "goroutine", "who starts a goroutine waits for it: use "+
					"sync.WaitGroup.Go, or put the file on the list in internal/lint/rules.go with the reason"))
			}
		case *ast.SelectorExpr:
			found = append(found, selector(f, n, testing)...)
		}
		return true
	})
	return found
}

// selector checks x.Sel.
func selector(f *file, n *ast.SelectorExpr, testing map[string]bool) []Finding {
	if !f.test && f.pkgMember(n) == "time.Sleep" {
		return []Finding{f.find(n, "sleep", "time.Sleep cannot be interrupted: select on a timer and the context")}
	}
	x, ok := n.X.(*ast.Ident)
	if !ok || !testing[x.Name] {
		return nil
	}
	switch n.Sel.Name {
	case "Skip", "Skipf", "SkipNow":
		return []Finding{f.find(n, "skip", "a skipped test proves nothing: make it run everywhere or delete it")}
	}
	return nil
}

// testingNames returns the parameters of f that are a testing.T, B, F or TB.
func testingNames(f *file) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		field, ok := n.(*ast.Field)
		if !ok {
			return true
		}
		typ := field.Type
		if star, ok := typ.(*ast.StarExpr); ok {
			typ = star.X
		}
		if strings.HasPrefix(f.pkgMember(typ), "testing.") {
			for _, name := range field.Names {
				names[name.Name] = true
			}
		}
		return true
	})
	return names
}

func hasGo(f *file) bool {
	found := false
	ast.Inspect(f.ast, func(n ast.Node) bool {
		_, is := n.(*ast.GoStmt)
		found = found || is
		return !found
	})
	return found
}
