package api_test

import (
	"net/http"
	"testing"

	"claudeops/internal/ops"
)

func TestChangesAreListed(t *testing.T) {
	c := newClient(t)
	var changes []ops.Change
	for _, text := range []string{"first", "second", "third"} {
		c.Now = c.Now.Add(1)
		changes = append(changes, ops.Change{Kind: ops.ChangeDisk, Subject: "/", Text: text, At: c.Now, NotBefore: c.Now})
	}
	things := []ops.Thing{{Kind: ops.ChangePackage, Unseen: "no log"}}
	must(t, c.Store.RecordLook(t.Context(), "home", "attic", ops.Look{Things: things, Changes: changes}, c.Now))
	status, _, got := c.ask("GET", "/api/v1/changes?limit=2", "")
	if status != http.StatusOK || len(items(got)) != 2 || got["next_cursor"] == nil {
		t.Fatalf("%d %v", status, got)
	}
	if row := items(got)[0]; row["text"] != "third" || row["host"] != "attic" || row["kind"] != "disk" || row["service"] != nil {
		t.Errorf("row %v", row)
	}
	_, _, rest := c.ask("GET", "/api/v1/changes?limit=2&cursor="+got["next_cursor"].(string), "")
	if len(items(rest)) != 1 || rest["next_cursor"] != nil {
		t.Errorf("the rest is %v", rest)
	}
	for path, want := range map[string]int{
		"/api/v1/changes?environment=nowhere": http.StatusUnprocessableEntity,
		"/api/v1/changes?service=nothing":     http.StatusUnprocessableEntity,
		"/api/v1/changes?cursor=x":            http.StatusUnprocessableEntity,
	} {
		if status, _, got := c.ask("GET", path, ""); status != want {
			t.Errorf("%s: %d %v", path, status, got)
		}
	}
}
