package surface

import (
	"cmp"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// room is a package below internal or cmd with those below it.
type room struct {
	says  string // the first sentence of its description
	parts map[string]bool
	uses  map[string]bool
}

// The diagram of docs/architecture.md is that of the imports: a room stands below all that import it, by the longest way.
func TestTheSurfaceDrawsTheRooms(t *testing.T) {
	const page = root + "/docs/architecture.md"
	all := rooms(t)
	level := map[string]int{}
	for range all {
		for name, r := range all {
			for use := range r.uses {
				level[name] = max(level[name], level[use]+1)
			}
		}
	}
	for name, l := range level {
		if l > len(all) {
			t.Fatalf("%s imports itself by another room", name)
		}
	}
	var b strings.Builder
	b.WriteString("<!-- rooms -->\n```text\n")
	before := -1
	for _, name := range slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(level[b]-level[a], strings.Compare(a, b)) }) {
		if before >= 0 && level[name] != before {
			b.WriteString("\n")
		}
		before = level[name]
		b.WriteString(name + strings.Repeat(" ", 12-len(name)) + all[name].says + "\n")
		if parts := slices.Sorted(maps.Keys(all[name].parts)); len(parts) > 0 {
			b.WriteString(strings.Repeat(" ", 12) + "below it: " + strings.Join(parts, ", ") + "\n")
		}
	}
	b.WriteString("```\n")
	text, err := os.ReadFile(page)
	must(t, err)
	drawn := regexp.MustCompile("(?s)<!-- rooms -->\n```text\n.*?```\n").ReplaceAllLiteralString(string(text), b.String())
	switch {
	case drawn == string(text):
	case *update:
		must(t, os.WriteFile(page, []byte(drawn), 0o644))
	default:
		t.Error("the rooms of docs/architecture.md are others now: make docs")
	}
}

func rooms(t *testing.T) map[string]room {
	t.Helper()
	all, files := map[string]room{}, token.NewFileSet()
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		at, relErr := filepath.Rel(root, path)
		must(t, relErr)
		words := strings.Split(filepath.ToSlash(at), "/")
		if err != nil || d.IsDir() || words[0] != "internal" && words[0] != "cmd" || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(files, path, nil, parser.ImportsOnly|parser.ParseComments)
		must(t, err)
		name := nameOf(words)
		r := all[name]
		if r.uses == nil {
			r = room{parts: map[string]bool{}, uses: map[string]bool{}}
		}
		if rest := words[2 : len(words)-1]; words[0] == "internal" && len(rest) > 0 {
			r.parts[strings.Join(rest, "/")] = true
		} else if parsed.Doc != nil {
			r.says = regexp.MustCompile(`^(Package \w+|Command claudeops) `).ReplaceAllString(new(doc.Package).Synopsis(parsed.Doc.Text()), "")
		}
		for _, i := range parsed.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			must(t, err)
			if below, ok := strings.CutPrefix(path, "claudeops/internal/"); ok {
				if use := nameOf([]string{"internal", strings.Split(below, "/")[0]}); use != name {
					r.uses[use] = true
				}
			}
		}
		all[name] = r
		return nil
	}))
	return all
}

// nameOf is the room of a file, by the words of its path.
func nameOf(words []string) string {
	if words[0] == "cmd" {
		return "cmd"
	}
	return words[1]
}

// mostMethods is how many methods a type has at most: above it, a type is several nouns.
const mostMethods = 60

// manyMethods are the types that have more. Their numbers only fall.
func manyMethods() map[string]int {
	return map[string]int{
		"guard/wall.Sandbox": 84,
	}
}

func TestTheSurfaceOfATypeIsSmall(t *testing.T) {
	methods, files := map[string]int{}, token.NewFileSet()
	must(t, filepath.WalkDir(root+"/internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		must(t, err)
		at, err := filepath.Rel(root+"/internal", filepath.Dir(path))
		must(t, err)
		for _, declared := range parsed.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok && f.Recv != nil {
				of := f.Recv.List[0].Type
				if pointer, ok := of.(*ast.StarExpr); ok {
					of = pointer.X
				}
				if name, ok := of.(*ast.Ident); ok {
					methods[filepath.ToSlash(at)+"."+name.Name]++
				}
			}
		}
		return nil
	}))
	for name, n := range methods {
		if most := max(mostMethods, manyMethods()[name]); n > most {
			t.Errorf("%s has %d methods, and may have %d: make a value for each noun", name, n, most)
		}
	}
}

// The store is handed out by its parts: it embeds none of them, and none has more than 60 methods.
func TestTheStoreIsInParts(t *testing.T) {
	files, err := filepath.Glob(root + "/internal/store/*.go")
	must(t, err)
	methods, parts := map[string]int{}, []string{}
	look := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv != nil {
				if of, ok := n.Recv.List[0].Type.(*ast.StarExpr); ok {
					methods[of.X.(*ast.Ident).Name]++
				}
			}
		case *ast.TypeSpec:
			if n.Name.Name != "Store" {
				return true
			}
			for _, f := range n.Type.(*ast.StructType).Fields.List {
				if len(f.Names) == 0 {
					t.Error("the store embeds a part")
					continue
				}
				parts = append(parts, f.Names[0].Name)
			}
		}
		return true
	}
	for _, path := range files {
		if !strings.HasSuffix(path, "_test.go") {
			parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			must(t, err)
			ast.Inspect(parsed, look)
		}
	}
	if len(parts) != 6 {
		t.Errorf("the store has the parts %q", parts)
	}
	for _, name := range parts {
		if methods[name] > 60 {
			t.Errorf("%s has %d methods, at most 60 are meant", name, methods[name])
		}
	}
}
