package cli

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

func TestReflexesAreShownAndSwitched(t *testing.T) {
	e := newElsewhere(t)
	e.Earn("default", "web")
	e.shows("reflexes list", "asked", "web", "GET /", "5xx", "restart")
	e.shows("reflexes show 1", "Reflex 1 of web is asked", "the probe GET / finds it down (5xx)", "Earned by C-1, C-2, C-3")
	if code, _, errs := e.run("reflexes", "enable", "1"); code == exitOK || !strings.Contains(errs, "no action restart any more") {
		t.Errorf("it is on without its action: %d %s", code, errs)
	}
	e.shows("reflexes disable 1 --reason never")
	e.shows("reflexes show 1", "is off by", "never")
	e.shows("reflexes export", "services: []")
}

func TestReflexesAreExportedAsConfiguration(t *testing.T) {
	r := ops.Reflex{Service: "web", On: "http", Status: ops.Down, Do: []string{"restart", "clear"}, Tries: 2, Per: ops.ReflexPer}
	row := api.EarnedReflex{Service: "web", State: "on", Class: "5xx", Cycles: []ops.CycleID{1, 2, 3}, YAML: r.YAML()}
	off := row
	off.Service, off.State = "db", "off"
	text := exported([]api.EarnedReflex{row, off, row})
	var got struct {
		Services []struct {
			Name     string
			Reflexes []struct {
				On, Status, Per string
				Do              []string
				Tries           int
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &got); err != nil || len(got.Services) != 1 || got.Services[0].Name != "web" || len(got.Services[0].Reflexes) != 2 {
		t.Fatalf("%v in\n%s", err, text)
	}
	if x := got.Services[0].Reflexes[0]; x.On != "http" || x.Status != "down" || x.Per != "6h" || x.Tries != 2 || len(x.Do) != 2 || !strings.Contains(text, "earned by C-1, C-2, C-3, for 5xx") {
		t.Errorf("%+v in\n%s", x, text)
	}
}
