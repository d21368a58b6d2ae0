package web_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/web"
	"claudeops/test/apitest"
)

func TestASessionHasItsPartsBehindTabs(t *testing.T) {
	s := newSite(t)
	_, ids := s.threeTiers()
	path := fmt.Sprintf("/sessions/%d", ids[0])
	mustContain(t, s.page(path), `data-tab="transcript">`, `data-tab="transcript" aria-current="page"`, path+"?tab=files", path+"/raw")
	for _, tab := range []string{"handoff", "result", "recovery", "guard"} {
		body := s.page(path + "?tab=" + tab)
		mustContain(t, body, fmt.Sprintf(`<html lang="en" data-theme="system" data-tab="%s">`, tab),
			fmt.Sprintf(`data-tab="%s" aria-current="page"`, tab),
			"panel-transcript", "panel-"+tab)
	}
	if got := s.get(path + "?tab=nothing").StatusCode; got != http.StatusNotFound {
		t.Errorf("a part that is not there: %d", got)
	}
	mustNotContain(t, s.page("/sessions"), "data-tab")
}

func fileCall(id, tool, field, path string) string {
	return fmt.Sprintf(`{"type":"assistant","message":{"content":[{"type":"tool_use","id":%q,"name":%q,"input":{%q:%q}}]}}`, id, tool, field,
		path)
}

func TestASessionNamesTheFilesItTouched(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, "", "", apitest.Run{Tier: 2, Status: ops.SessionRunning, Lines: []string{
		said(`I will write "file_path" soon.`), fileCall("a", "Read", "file_path", "/etc/jellyfin.yaml"), fileCall("b", "Edit", "file_path",
			"/etc/<b>.yaml"),
		fileCall("c", "NotebookEdit", "notebook_path", "/srv/x.ipynb"), call("d", "cat /etc/passwd"),
	}})
	s.Judge(ids[0], ops.GuardRecord{Gate: ops.GateHook, ToolUseID: "b", Tool: "Edit", Input: "{}", Tier: 2, Rule: "R1", Reason: "No."})
	path := fmt.Sprintf("/sessions/%d", ids[0])
	_, files, _ := strings.Cut(s.page(path+"?tab=files"), "panel-files")
	mustContain(t, files, "/etc/jellyfin.yaml", ">Read<", "/etc/&lt;b&gt;.yaml", "Denied", "/srv/x.ipynb", "Changed", path+"/lines/2")
	mustNotContain(t, files, "/etc/passwd", "<b>")
	mustNotContain(t, s.page(path), "panel-files")
	_, none := s.Chain(ops.NewCycle{Environment: "other"}, "", "", apitest.Run{Tier: 1, Status: ops.SessionRunning})
	mustContain(t, s.page(fmt.Sprintf("/sessions/%d?tab=files", none[0])), "No tool call named a file.")
}

func TestTheRawTranscriptIsEveryLine(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeHealthy, Lines: append(numbered(1200), "<script>x</script>")})
	got := s.get(fmt.Sprintf("/sessions/%d/raw", ids[0]))
	if lines := strings.Count(got.body, "\n"); lines != 1201 || got.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%d lines as %s", lines, got.Header.Get("Content-Type"))
	}
	mustContain(t, got.body, "line number 1200.", "<script>x</script>\n")
	if status := s.get("/sessions/99/raw").StatusCode; status != http.StatusNotFound {
		t.Errorf("a session that is not there: %d", status)
	}
}

func TestASessionNamesItsTraceWhereTracesAreSent(t *testing.T) {
	s := newSite(t, func(o *web.Options) { o.Trace = func(c ops.Cycle) string { return fmt.Sprintf("4bf92f%d", c.ID) } })
	cycle, ids := s.threeTiers()
	mustContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[0])), "Trace ID", fmt.Sprintf(`data-copy="4bf92f%d"`, cycle))
	plain := newSite(t)
	_, ids = plain.threeTiers()
	mustNotContain(t, plain.page(fmt.Sprintf("/sessions/%d", ids[0])), "Trace ID")
}

func TestFewFactsStandAboveTheTranscriptAndTheRestIsFolded(t *testing.T) {
	s := newSite(t)
	_, ids := s.threeTiers()
	_, figures, _ := strings.Cut(s.page(fmt.Sprintf("/sessions/%d", ids[0])), `aria-label="Figures"`)
	shown, folded, _ := strings.Cut(figures, "<details")
	folded, _, _ = strings.Cut(folded, "</details>")
	if n := strings.Count(shown, "<dt>"); n > 8 {
		t.Errorf("%d facts", n)
	}
	mustContain(t, shown, "Est. cost", "Turns", "Tokens", "Model", "Trigger")
	mustContain(t, folded, "Started", "Handler", "Context")
}

func TestWhatRunsCountsOn(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, "", "",
		apitest.Run{Tier: 1, For: 17 * time.Second, Outcome: ops.OutcomeEscalate, Handoff: handoff, Figures: figures(0.02, 4, 17_000)},
		apitest.Run{Tier: 2, Status: ops.SessionRunning})
	s.Now = s.Now.Add(3 * time.Second)
	body := s.page(fmt.Sprintf("/sessions/%d", ids[1]))
	_, total, _ := strings.Cut(body, "Cycle total")
	since := s.Now.Add(-20 * time.Second).UTC().Format(time.RFC3339)
	mustContain(t, total, fmt.Sprintf(`data-since="%s">20s<`, since))
	mustContain(t, body, `data-until="0"`)
	if n := strings.Count(body, `data-until="0"`); n != 2 { // the bar and its hatching
		t.Errorf("%d bars grow", n)
	}
}

func TestARemovedTranscriptSaysSo(t *testing.T) {
	s := newSite(t, func(o *web.Options) { o.KeepTranscripts = 30 * 24 * time.Hour })
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeHealthy, Lines: numbered(300)})
	db, err := sql.Open("sqlite", s.Path)
	must(t, err)
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), `DELETE FROM transcript`); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"", "?end=1"} {
		body := s.page(fmt.Sprintf("/sessions/%d%s", ids[0], query))
		mustContain(t, body, "Transcript removed by retention (30 days).")
		mustNotContain(t, body, "300</span> lines", "Newest lines")
	}
	for removed, want := range map[time.Duration]string{31 * 24 * time.Hour: "(30 days)", time.Hour: "(total size limit reached)"} {
		at := s.Now.Add(removed).UTC()
		if _, err := db.ExecContext(t.Context(), `UPDATE sessions SET transcript_removed_at = ?`,
			at.Format("2006-01-02T15:04:05.000000Z")); err != nil {
			t.Fatal(err)
		}
		mustContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[0])), "Transcript removed by retention on "+at.Format(time.DateOnly)+" "+want)
	}
}
