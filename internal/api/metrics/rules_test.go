package metrics

import (
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

const packaged = "../../../packaging/examples/"

// query is one expression of the rules or the dashboard, with the texts that show its labels.
type query struct{ where, expr, shown string }

// queries are all expressions in the packages.
func queries(t *testing.T) (out []query) {
	t.Helper()
	read := func(name string) []byte {
		raw, err := os.ReadFile(packaged + name)
		must(t, err)
		return raw
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	must(t, yaml.Unmarshal(read("prometheus-rules.yml"), &rules))
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			out = append(out, query{r.Alert, r.Expr, r.Annotations["summary"]})
		}
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Query string }
		}
	}
	must(t, json.Unmarshal(read("grafana-dashboard.json"), &board))
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			out = append(out, query{p.Title, q.Expr, q.LegendFormat})
		}
	}
	for _, v := range board.Templating.List {
		if name, label, is := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(v.Query, "label_values("), ")"), ", "); is {
			out = append(out, query{v.Name, "sum by (" + label + ") (" + name + ")", ""})
		}
	}
	if len(out) < 20 {
		t.Fatalf("only %d expressions were found", len(out))
	}
	return out
}

func TestRulesAndDashboardUseMetricsThatExist(t *testing.T) {
	j := apitest.Open(t, time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC))
	h := New(Options{
		Store: j.Store, Logger: slog.New(slog.DiscardHandler), Clock: j.Clock, Version: "1", Environments: []ops.Environment{{Name: "home"}},
		WrongTokens: func() int64 { return 0 }, Process: func() Process { return Process{} },
	})
	families, err := h.collect(t.Context())
	must(t, err)
	labels := map[string][]string{}
	for _, f := range families {
		labels[prefix+f.name] = f.labels
		if f.kind == histogram {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				labels[prefix+f.name+part] = append(slices.Clone(f.labels), "le")
			}
		}
	}
	metric := regexp.MustCompile(`claudeops_[a-z_]+`)
	used := regexp.MustCompile(`([a-z_]+) ?(?:=~|!=|=)"|(?:by|on|ignoring) \(([a-z_, ]+)\)|\{\{ ?(?:\$labels\.)?([a-z_]+) ?\}\}`)
	for _, q := range queries(t) {
		var known []string
		for _, name := range metric.FindAllString(q.expr, -1) {
			has, exists := labels[name]
			if !exists {
				t.Errorf("%s: there is no metric %s", q.where, name)
			}
			known = append(known, has...)
		}
		if len(known) == 0 && !metric.MatchString(q.expr) {
			t.Errorf("%s shows nothing of Claude Ops: %s", q.where, q.expr)
		}
		for _, m := range used.FindAllStringSubmatch(q.expr+" "+q.shown, -1) {
			for label := range strings.SplitSeq(m[1]+m[2]+m[3], ", ") {
				if !slices.Contains(known, label) {
					t.Errorf("%s: no metric in it has a label %s: %s", q.where, label, q.expr)
				}
			}
		}
	}
}

// TestPromtoolReadsRulesAndDashboard runs what Prometheus itself reads rules with; the expressions of the dashboard become rules for it.
func TestPromtoolReadsRulesAndDashboard(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is not installed: run script/setup-tests all")
	}
	dir := t.TempDir()
	var board strings.Builder
	board.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	for i, q := range queries(t) {
		expr, err := json.Marshal(strings.ReplaceAll(q.expr, "$__rate_interval", "5m"))
		must(t, err)
		board.WriteString("      - {record: \"panel:" + strings.Repeat("x", i+1) + "\", expr: " + string(expr) + "}\n")
	}
	rules, err := filepath.Abs(packaged + "prometheus-rules.yml")
	must(t, err)
	tests := "rule_files: [" + rules + `]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'claudeops_build_info{version="1"}', values: '1x30'}
      - {series: 'claudeops_approvals_pending', values: '1x30'}
      - {series: 'claudeops_service_state{environment="home",service="web",state="down"}', values: '1x30'}
      - {series: 'claudeops_service_state{environment="home",service="db",state="down"}', values: '0x30'}
      - {series: 'claudeops_budget_spent_usd{environment="home",window="day"}', values: '21x30'}
      - {series: 'claudeops_budget_limit_usd{environment="home",window="day"}', values: '25x30'}
    alert_rule_test:
      - {eval_time: 20m, alertname: ClaudeOpsGone}
      - {eval_time: 10m, alertname: ClaudeOpsServiceDown}
      - eval_time: 20m
        alertname: ClaudeOpsServiceDown
        exp_alerts:
          - exp_labels: {severity: critical, environment: home, service: web, state: down}
            exp_annotations: {summary: web of home is down}
      - eval_time: 20m
        alertname: ClaudeOpsNeedsYou
        exp_alerts:
          - exp_labels: {severity: warning}
            exp_annotations: {summary: 1 questions or incidents wait for a person}
      - eval_time: 20m
        alertname: ClaudeOpsBudget
        exp_alerts:
          - exp_labels: {severity: warning, environment: home, window: day}
            exp_annotations: {summary: home has used 80 % of its budget of the day}
`
	for name, text := range map[string]string{"board.yml": board.String(), "test.yml": tests} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, args := range [][]string{{"check", "rules", rules, filepath.Join(dir, "board.yml")}, {"test", "rules", filepath.Join(dir, "test.yml")}} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
