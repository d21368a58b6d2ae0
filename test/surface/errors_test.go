package surface

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// foreign is the one file that reads what an error says: the YAML parser tells the line in no other way.
const foreign = root + "/internal/config/yaml.go"

// The text of an error is for people: the program asks errors.Is and errors.As. What is in the way of a request is an ops.Conflict.
func TestNobodyReadsTheTextOfAnError(t *testing.T) {
	files := token.NewFileSet()
	must(t, filepath.WalkDir(root+"/internal", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || path == foreign {
			return err
		}
		parsed, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		must(t, err)
		for _, at := range readErrors(parsed) {
			t.Errorf("%s reads the text of an error, or makes a conflict of a text", files.Position(at))
		}
		return nil
	}))
}

func TestReadingTheTextOfAnErrorIsFound(t *testing.T) {
	for text, want := range map[string]int{
		`strings.Contains(err.Error(), "EOF")`:                                 1,
		`strings.TrimSuffix("x: "+err.Error(), ": conflict")`:                  1,
		`text := err.Error(); _, _, _ = strings.Cut(text, "\n")`:               1,
		`pattern().FindStringSubmatch(err.Error())`:                            1,
		`_ = fmt.Errorf("it is %s: %w", state, ops.ErrConflict)`:               1,
		`log(err.Error()); _ = strings.Contains(name, "EOF")`:                  0,
		`_ = errors.Is(err, ops.ErrConflict); _ = fmt.Errorf("look: %w", err)`: 0,
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), "", "package x\nfunc f() { "+text+" }", parser.SkipObjectResolution)
		must(t, err)
		if got := readErrors(parsed); len(got) != want {
			t.Errorf("%s: found %d times", text, len(got))
		}
	}
}

// readErrors is where a file searches or cuts the text of an error.
func readErrors(file *ast.File) (out []token.Pos) {
	texts := map[string]bool{} // variables with the text of an error
	isText := func(e ast.Expr) (found bool) {
		ast.Inspect(e, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				found = found || texts[n.Name]
			case *ast.CallExpr:
				s, ok := n.Fun.(*ast.SelectorExpr)
				found = found || ok && s.Sel.Name == "Error" && len(n.Args) == 0
				return false
			}
			return !found
		})
		return found
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			clear(texts)
		case *ast.AssignStmt:
			for i, e := range n.Rhs {
				if to, ok := n.Lhs[i].(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) && isText(e) {
					texts[to.Name] = true
				}
			}
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, _ := s.X.(*ast.Ident)
			reads := of != nil && of.Name == "strings" || strings.HasPrefix(s.Sel.Name, "Find") || strings.HasPrefix(s.Sel.Name, "Match") ||
				strings.HasPrefix(s.Sel.Name, "ReplaceAll")
			for _, e := range n.Args {
				kind, _ := e.(*ast.SelectorExpr)
				if reads && isText(e) || s.Sel.Name == "Errorf" && kind != nil && kind.Sel.Name == "ErrConflict" {
					out = append(out, n.Pos())
				}
			}
		}
		return true
	})
	return out
}
