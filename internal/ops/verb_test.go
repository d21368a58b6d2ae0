package ops_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

var update = flag.Bool("update", false, "write docs/events.md again")

const eventsHead = `# Events

Everything that an operator may want to know is a row of the table events: who (actor) did what (verb) to whom (subject), when, and with
which reason. The API lists them at ` + "`/api/v1/events`" + `, the command ` + "`claudeops events`" + ` prints them. The message is made for people when the row is written;
nothing reads it back, and neither should you: what a verb tells of its own is the event's detail, an object with the fields of the last
column, of which those are left out that say nothing. Actors are a person, an agent, or the supervisor itself. A subject is an action, approval, cycle,
incident, memory, notice, reflex, session, silence or update by its number, or a host, service or token by its name.

This page is generated: ` + "`make docs`" + `.

| verb | kind | what happened | detail |
|---|---|---|---|
`

// declared are the verbs of verb.go with their comments, in its order.
func declared(t *testing.T) (verbs []ops.Verb, says []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "verb.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(v.Names[0].Name, "Verb") {
			return true
		}
		text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		verbs, says = append(verbs, ops.Verb(text)), append(says, strings.TrimSpace(v.Comment.Text()))
		return true
	})
	return verbs, says
}

// fields are the names that a detail has in JSON.
func fields(d ops.Detail) string {
	var out []string
	if d != nil {
		for f := range reflect.TypeOf(d).Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			out = append(out, "`"+name+"`")
		}
	}
	return strings.Join(out, ", ")
}

func TestEventsDocumentIsUpToDate(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(eventsHead)
	verbs, says := declared(t)
	for i, v := range verbs {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", v, v.Kind(), says[i], fields(v.Detail()))
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

// Every verb that is declared says what it means, in alphabetical order, and belongs to one kind. No other verb does.
func TestEveryVerbHasItsLineAndItsKind(t *testing.T) {
	t.Parallel()
	verbs, says := declared(t)
	if known := ops.Verbs(); len(known) != len(verbs) || !slices.IsSorted(verbs) {
		t.Errorf("%d verbs are declared, %d have a kind", len(verbs), len(known))
	}
	for i, v := range verbs {
		if says[i] == "" || !slices.Contains(ops.EventKinds(), v.Kind()) {
			t.Errorf("%s of the kind %q says %q", v, v.Kind(), says[i])
		}
	}
}

// What is written of an event is read again as the type of its verb, and nothing else can be written.
func TestADetailIsOfTheTypeOfItsVerb(t *testing.T) {
	t.Parallel()
	for _, v := range ops.Verbs() {
		e := ops.Event{Verb: v, Detail: v.Detail()}
		text, err := e.Written()
		if err != nil {
			t.Errorf("%s: %v", v, err)
		}
		if d, err := v.Read([]byte(text)); err != nil || !reflect.DeepEqual(d, e.Detail) {
			t.Errorf("%s reads %q as %#v: %v", v, text, d, err)
		}
	}
	wrong := ops.Event{Verb: ops.VerbTokenMade, Detail: ops.TrustDetail{}}
	if text, err := wrong.Written(); err == nil {
		t.Errorf("a detail of another verb is written as %s", text)
	}
	if text, err := (ops.Event{Verb: ops.VerbTokenMade}).Written(); err != nil || text != "" {
		t.Errorf("no detail is written as %q: %v", text, err)
	}
	if d, err := ops.VerbTokenMade.Read([]byte("{")); err == nil {
		t.Errorf("what is no JSON is read as %#v", d)
	}
}
