package ops_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table in the package comment is what newcomers read, so it must name the rows that decide, in their order.
func TestTheTableInTheDocumentation(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "*", "next.go"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the table was found in %v (%v), want one file", files, err)
	}
	code, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "//\trow ")
	table, _, _ = strings.Cut(table, "\n//\n")
	want := names(string(code), `(?m)^\t\t\{"([^"]+)", `)
	if len(want) < 30 {
		t.Fatalf("only %d rows were found in %s", len(want), files[0])
	}
	if got := names(table, `(?m)^//\t(\S+(?: \S+)*)  `); !slices.Equal(got, want) {
		t.Errorf("doc.go has the rows\n%q, %s has\n%q", got, files[0], want)
	}
}

func names(text, pattern string) []string {
	var out []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}
