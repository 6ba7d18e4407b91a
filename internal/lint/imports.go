package lint

import (
	"slices"
	"strings"
)

// imports checks f against the map of packages and the places of libraries.
func (r Rules) imports(f *file) []Finding {
	arrows, known := r.arrows(f.dir)
	if !known {
		return []Finding{f.find(f.ast.Name, "import",
			"package %s is not on the map in internal/lint/rules.go: add it with what it may import", f.dir)}
	}
	var found []Finding
	for _, spec := range f.ast.Imports {
		imported := importPath(spec)
		var reason string
		if own, ok := r.own(imported); ok {
			reason = r.ownReason(f, arrows, own)
		} else {
			reason = r.libraryReason(f, arrows, imported)
		}
		if reason != "" {
			found = append(found, f.find(spec, "import", "%s may not import %s: %s", f.dir, imported, reason))
		}
	}
	return found
}

// arrows finds dir on the map, by itself or by the closest "folder/..." above it.
func (r Rules) arrows(dir string) (Arrows, bool) {
	if a, ok := r.Packages[dir]; ok {
		return a, true
	}
	for above := dir; above != ""; above, _ = cutLast(above) {
		if a, ok := r.Packages[above+"/..."]; ok {
			return a, true
		}
	}
	return Arrows{}, false
}

// cutLast takes the last element off a slashed path; without a slash nothing is left.
func cutLast(p string) (rest, last string) {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return "", p
	}
	return p[:i], p[i+1:]
}

// own returns the folder of an import path of the module.
func (r Rules) own(imported string) (string, bool) {
	return strings.CutPrefix(imported, r.Module+"/")
}

func (r Rules) ownReason(f *file, arrows Arrows, dir string) string {
	switch {
	case slices.Contains(arrows.Own, AnyPackage), slices.Contains(arrows.Own, dir):
		return ""
	case f.test && (dir == f.dir || slices.Contains(r.TestHelpers, dir)):
		return ""
	case dir == "config":
		return "only cmd reads the configuration; take the values you need as parameters"
	case strings.HasPrefix(dir, "cmd/"):
		return "cmd connects the others, nothing imports it"
	}
	return "arrows point downward only (cmd -> api, worker, metrics, config, client -> queue -> tasks); " +
		"declare the small interface you need and let cmd connect the two"
}

func (r Rules) libraryReason(f *file, arrows Arrows, imported string) string {
	if arrows.Stdlib && !f.test && !isStdlib(imported) {
		return "it keeps to the standard library, so that its users get no dependencies with it"
	}
	for _, lib := range r.Libraries {
		if !below(imported, lib.Path) || (lib.Tests && f.test) {
			continue
		}
		if !slices.ContainsFunc(lib.Only, func(place string) bool { return holds(place, f) }) {
			return "only " + strings.Join(lib.Only, ", ") + ": " + lib.Why
		}
	}
	return ""
}

// isStdlib reports whether an import path is the standard library's: only the others begin with a domain.
func isStdlib(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// below reports whether path is dir or lies in it.
func below(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// holds reports whether place (a folder, or a folder with all below it) holds f.
func holds(place string, f *file) bool {
	if root, ok := strings.CutSuffix(place, "/..."); ok {
		return below(f.dir, root)
	}
	return place == f.dir
}
