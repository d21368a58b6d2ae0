package ops_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

var update = flag.Bool("update", false, "write docs/events.md again")

const eventsHead = `# Events

Everything that an operator may want to know is a row of the table events: who (actor) did what (verb) to whom (subject), when, and with
which reason. The API lists them at ` + "`/api/v1/events`" + `, the command ` + "`claudeops events`" + ` prints them. The message is made for people when the row is written;
nothing reads it back, and neither should you. Actors are a person, an agent, or the supervisor itself. A subject is an action, approval, cycle,
incident, memory, notice, reflex, session, silence or update by its number, or a host, service or token by its name.

This page is generated: ` + "`make docs`" + `.

| verb | kind | what happened |
|---|---|---|
`

func TestEventsDocumentIsUpToDate(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(eventsHead)
	for _, d := range ops.Verbs() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", d.Verb, d.Kind, d.Says)
	}
	const path = "../../docs/events.md"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil || string(have) != b.String() {
		t.Errorf("docs/events.md is out of date, run make docs (%v)", err)
	}
}

// Every verb that is declared has its line, in alphabetical order, and belongs to a kind that exists.
func TestEveryVerbHasItsLine(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "verb.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Verb") {
			declared++
		}
		return true
	})
	all := ops.Verbs()
	if declared != len(all) || !slices.IsSortedFunc(all, func(a, b ops.VerbDoc) int { return strings.Compare(string(a.Verb), string(b.Verb)) }) {
		t.Errorf("%d verbs are declared, %d have a line", declared, len(all))
	}
	for _, d := range all {
		if d.Says == "" || !slices.Contains(ops.EventKinds(), d.Kind) || d.Verb.Kind() != d.Kind {
			t.Errorf("%+v", d)
		}
	}
}
