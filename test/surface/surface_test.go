// Package surface lists in docs/surface.txt all that people and programs can reach, so that a change shows what it adds or takes away.
package surface

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"claudeops/internal/api"
	"claudeops/internal/cli"
	"claudeops/internal/store"
)

const (
	root = "../.."
	file = root + "/docs/surface.txt"
)

var update = flag.Bool("update", false, "write docs/surface.txt")

func TestTheSurfaceIsWhatItsFileSays(t *testing.T) {
	commands, hidden, flags := commandsAndFlags()
	var b bytes.Buffer
	b.WriteString("What people and programs can reach. make docs writes this file; its difference belongs to the report of a change.\n")
	for _, part := range []struct {
		name string
		rows []string
	}{
		{"commands", commands},
		{"hidden commands", hidden},
		{"flags", flags},
		{"API operations", operations(t)},
		{"page routes", routes(t)},
		{"settings", settings(t)},
		{"tables", tables(t)},
		{"documents", documents(t)},
	} {
		if len(part.rows) == 0 {
			t.Errorf("no %s were found", part.name)
		}
		slices.Sort(part.rows)
		fmt.Fprintf(&b, "\n# %s: %d\n%s\n", part.name, len(part.rows), strings.Join(part.rows, "\n"))
	}
	if *update {
		must(t, os.WriteFile(file, b.Bytes(), 0o644))
	}
	got, err := os.ReadFile(file)
	must(t, err)
	if !bytes.Equal(got, b.Bytes()) {
		t.Fatal("docs/surface.txt is out of date: run make docs, and read its difference")
	}
}

// commandsAndFlags are the commands that have no commands of their own, and each flag with the commands that take it. Completion counts
// once, although it has a command per shell; a flag of very many commands is one of the program.
func commandsAndFlags() (commands, hidden, flags []string) {
	program := cli.Commands(cli.Process{Version: "dev"})
	takers := map[string][]string{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		name := strings.TrimPrefix(c.CommandPath(), program.Name()+" ")
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { takers[f.Name] = append(takers[f.Name], name) })
		switch {
		case c.HasSubCommands(), c.HasParent() && c.Parent().Name() == "completion":
		case c.Hidden:
			hidden = append(hidden, name)
		default:
			commands = append(commands, name)
		}
		for _, child := range c.Commands() {
			walk(child)
		}
	}
	walk(program)
	for flag, names := range takers {
		if len(names) > 40 {
			names = []string{program.Name()}
		}
		flags = append(flags, "--"+flag+": "+strings.Join(names, ", "))
	}
	return append(commands, "completion"), hidden, flags
}

// operations are those that the API describes.
func operations(t *testing.T) []string {
	answer := httptest.NewRecorder()
	api.New(api.Options{Store: new(store.Store)}).ServeHTTP(answer, httptest.NewRequest("GET", api.Prefix+"/openapi.json", nil))
	var described struct {
		Paths map[string]map[string]json.RawMessage
	}
	must(t, json.Unmarshal(answer.Body.Bytes(), &described))
	var rows []string
	for path, methods := range described.Paths {
		for method := range methods {
			if method != "parameters" {
				rows = append(rows, strings.ToUpper(method)+" "+path)
			}
		}
	}
	return rows
}

// routes are read from the source, because a multiplexer does not tell what it holds.
func routes(t *testing.T) []string {
	var rows []string
	for _, folder := range []string{"internal/web", "internal/api"} {
		files := parsed(t, filepath.Join(root, folder))
		values := stringConstants(files)
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) != 2 {
					return true
				}
				if s, ok := call.Fun.(*ast.SelectorExpr); !ok || s.Sel.Name != "HandleFunc" && s.Sel.Name != "Handle" {
					return true
				}
				if pattern, ok := value(call.Args[0], values); ok && strings.Contains(pattern, "/") {
					rows = append(rows, pattern)
				}
				return true
			})
		}
	}
	return rows
}

func parsed(t *testing.T, folder string) []*ast.File {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	must(t, err)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		must(t, err)
		files = append(files, f)
	}
	return files
}

func stringConstants(files []*ast.File) map[string]string {
	values := map[string]string{"api.Prefix": api.Prefix}
	for range 3 { // constants are made of constants
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				spec, ok := n.(*ast.ValueSpec)
				if !ok || len(spec.Names) != len(spec.Values) {
					return true
				}
				for i, name := range spec.Names {
					if v, ok := value(spec.Values[i], values); ok {
						values[name.Name] = v
					}
				}
				return true
			})
		}
	}
	return values
}

// value is what an expression of literals and named constants says. What only runs know stands as {…}.
func value(e ast.Expr, named map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		return constant.StringVal(constant.MakeFromLiteral(e.Value, e.Kind, 0)), true
	case *ast.Ident:
		v, ok := named[e.Name]
		return v, ok
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			v, known := named[x.Name+"."+e.Sel.Name]
			return v, known
		}
	case *ast.BinaryExpr:
		left, known := value(e.X, named)
		right, alsoKnown := value(e.Y, named)
		if !known {
			left = "{…}"
		}
		if !alsoKnown {
			right = "{…}"
		}
		return left + right, known || alsoKnown
	}
	return "", false
}

// settings are the rows of the reference, which a test of the configuration keeps up to date.
func settings(t *testing.T) []string {
	text, err := os.ReadFile(root + "/docs/configuration.md")
	must(t, err)
	var rows []string
	section := ""
	heading, row := regexp.MustCompile("(?m)^#+ (.*)$"), regexp.MustCompile("^\\| `([a-z_0-9.<>N]+)`(, `[a-z_]+`)* \\|")
	for line := range strings.Lines(string(text)) {
		if m := heading.FindStringSubmatch(line); m != nil {
			section = m[1]
		}
		if m := row.FindStringSubmatch(line); m != nil {
			rows = append(rows, section+": "+m[1])
		}
	}
	return rows
}

// tables are those that the migrations make.
func tables(t *testing.T) []string {
	names, err := filepath.Glob(root + "/internal/store/migrations*/*.sql")
	must(t, err)
	made := map[string]bool{}
	statement := regexp.MustCompile(`(?i)\b(CREATE|DROP) TABLE (?:IF (?:NOT )?EXISTS )?([a-z_0-9]+)|ALTER TABLE ([a-z_0-9]+) RENAME TO ([a-z_0-9]+)`)
	for _, name := range names {
		text, err := os.ReadFile(name)
		must(t, err)
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		for _, m := range statement.FindAllStringSubmatch(up, -1) {
			switch {
			case m[3] != "":
				delete(made, m[3])
				made[m[4]] = true
			case strings.EqualFold(m[1], "create"):
				made[m[2]] = true
			default:
				delete(made, m[2])
			}
		}
	}
	var rows []string
	for name := range made {
		rows = append(rows, name)
	}
	return rows
}

// documents are the texts for people, and the examples.
func documents(t *testing.T) []string {
	var rows []string
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch first, _, _ := strings.Cut(name, string(filepath.Separator)); {
		case d.IsDir() && (first == "internal" || first == "test" || name != "." && name != ".github" && strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case d.IsDir():
		case strings.HasSuffix(name, ".md"), first == "examples", name == "llms.txt":
			rows = append(rows, name)
		}
		return nil
	}))
	return rows
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
