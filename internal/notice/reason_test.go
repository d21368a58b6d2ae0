package notice_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// Every kind of reason has its sentence, which the facts of a reason can fill.
func TestEveryReasonHasItsSentence(t *testing.T) {
	source, err := parser.ParseFile(token.NewFileSet(), "../ops/reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	said := 0
	ast.Inspect(source, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if of, _ := spec.Type.(*ast.Ident); of == nil || of.Name != "ReasonKind" {
			return true
		}
		kind, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		r := ops.Reason{
			Kind: ops.ReasonKind(kind), Session: &ops.Session{ID: 1, Tier: ops.Tier2, Error: "error", Report: &ops.Outcome{}}, Text: "a text", Services: []string{"web"},
			Approval: &ops.Approval{Handler: "tier2", AnsweredAt: &now, DeniedUntil: &now, Plan: []ops.ApprovedStep{{}}}, Run: &ops.ActionRun{},
			Reflex: ops.Reflex{Do: []string{"restart"}}, Rest: []string{"more"}, Step: 1, Most: 1,
			Incident: ops.Incident{CalledAt: &now, SnoozedUntil: &now, Waiting: ops.Ptr(ops.CycleID(1))}, Problem: ops.ProblemReview, Decision: ops.Decision{Reason: "a decision"},
		}
		if text := (notice.Steps{}).Reason(r); text == kind || text == "" || strings.Contains(text, "%!") || strings.Contains(text, "<no value>") {
			t.Errorf("%s: %q", kind, text)
		}
		said++
		return true
	})
	if said < 90 {
		t.Errorf("only %d kinds were found", said)
	}
}
