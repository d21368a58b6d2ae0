package report

import (
	"slices"
	"testing"

	"claudeops/internal/ops"
)

func inventory(strict bool) ops.Inventory {
	return ops.Inventory{
		Strict:   strict,
		Services: []ops.Service{{Name: "grafana", Aliases: []string{"grafana.lan", "dash"}}, {Name: "postgres"}},
	}
}

func handedOver(names ...string) ops.Handoff {
	h := ops.Handoff{ServicesAffected: names}
	for _, name := range names {
		h.CheckResults = append(h.CheckResults, ops.CheckResult{Service: name})
	}
	return h
}

func TestAliasesBecomeTheServicesOwnName(t *testing.T) {
	given := handedOver("dash", "postgres", "grafana.lan")
	h, report := CheckInventory(given, inventory(true))
	if !report.OK() || len(report.Warnings) > 0 {
		t.Fatalf("report %+v", report)
	}
	if !slices.Equal(h.ServicesAffected, []string{"grafana", "postgres"}) {
		t.Errorf("services %q", h.ServicesAffected)
	}
	if h.CheckResults[0].Service != "grafana" || h.CheckResults[2].Service != "grafana" {
		t.Errorf("check results %+v", h.CheckResults)
	}
	if given.ServicesAffected[0] != "dash" || given.CheckResults[0].Service != "dash" {
		t.Error("the caller's handoff was changed")
	}
}

func TestUnknownServicesAreWarningsUnlessStrict(t *testing.T) {
	h, report := CheckInventory(handedOver("grafana", "ghost"), inventory(false))
	want := []string{
		`/services_affected/1: is no service of the inventory (is "ghost")`,
		`/check_results/1/service: is no service of the inventory (is "ghost")`,
	}
	if !report.OK() || !slices.Equal(report.Warnings, want) {
		t.Errorf("report %+v", report)
	}
	if !slices.Equal(h.ServicesAffected, []string{"grafana", "ghost"}) {
		t.Errorf("services %q", h.ServicesAffected)
	}
	_, report = CheckInventory(handedOver("grafana", "ghost"), inventory(true))
	if got := problems(report); !slices.Equal(got, want) || len(report.Warnings) > 0 {
		t.Errorf("strict report %+v", report)
	}
}

func TestNothingIsCheckedWithoutAnInventory(t *testing.T) {
	h, report := CheckInventory(handedOver("ghost"), ops.Inventory{Strict: true})
	if !report.OK() || len(report.Warnings) > 0 || h.ServicesAffected[0] != "ghost" {
		t.Errorf("got %+v, %+v", h, report)
	}
}
