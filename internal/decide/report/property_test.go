package report

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"claudeops/internal/ops"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// wantStable writes an accepted outcome again and reads it back.
func wantStable(t rapid.TB, o ops.Outcome, from ops.Tier, published, inline *jsonschema.Schema) {
	t.Helper()
	if (o.Handoff != nil) != (o.Kind == ops.OutcomeEscalate) || len(o.CheckResults) == 0 || o.Summary == "" {
		t.Fatalf("accepted %+v", o)
	}
	for _, c := range o.CheckResults {
		if c.Status == ops.Down && (o.Kind == ops.OutcomeHealthy || o.Kind == ops.OutcomeResolved) {
			t.Fatalf("accepted a contradiction: %+v", o)
		}
	}
	again, err := json.Marshal(o)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	if len(again) > MaxBytes { // escapes can make it longer than it came
		return
	}
	second, report := Outcome(again, from)
	if !report.OK() {
		t.Fatalf("accepted, but refused when written again: %v\n%s", report.Err(), again)
	}
	if !reflect.DeepEqual(second, o) {
		t.Fatalf("changed when written again\nfirst  %+v\nsecond %+v", o, second)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(again))
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	if err := published.Validate(value); err != nil {
		t.Fatalf("accepted, but not by the published schema: %v\n%s", err, again)
	}
	if o.Handoff != nil && (o.Handoff.RecommendedTier < ops.Tier2 || o.Handoff.RecommendedTier > ops.Tier3) {
		return // the inline schema does not offer these
	}
	if err := inline.Validate(value); err != nil {
		t.Fatalf("accepted, but not by the inline schema: %v\n%s", err, again)
	}
}

func TestAcceptedOutcomesAreAcceptedWhenWrittenAgain(t *testing.T) {
	published, inline := compileText(t, string(OutcomeSchema())), inlines(t)
	for _, kind := range kinds {
		accepted := 0
		rapid.Check(t, func(t *rapid.T) {
			from := ops.Tier(rapid.IntRange(1, 3).Draw(t, "tier"))
			drawn := anyOutcome(from, kind).Draw(t, "outcome")
			raw, err := json.Marshal(drawn)
			if err != nil {
				t.Fatal(err)
			}
			o, report := Outcome(raw, from)
			if !report.OK() { // a drawn text may happen to say nothing
				return
			}
			accepted++
			if from > ops.Tier1 && drawn.Kind == ops.OutcomeHealthy {
				drawn.Kind = ops.OutcomeResolved
			}
			if !reflect.DeepEqual(o, drawn) {
				t.Fatalf("read  %+v\ndrawn %+v", o, drawn)
			}
			wantStable(t, o, from, published, inline[from])
		})
		if accepted == 0 {
			t.Errorf("no %s was accepted: the test shows nothing", kind)
		}
	}
}

func anyOutcome(from ops.Tier, kind ops.OutcomeKind) *rapid.Generator[ops.Outcome] {
	return rapid.Custom(func(t *rapid.T) ops.Outcome {
		o := ops.Outcome{
			SchemaVersion: Version,
			Kind:          kind,
			Summary:       speakingText().Draw(t, "summary"),
			Confidence:    rapid.Ptr(rapid.Float64Range(0, 1), true).Draw(t, "confidence"),
			CheckResults:  rapid.SliceOfN(anyCheck(), 1, 4).Draw(t, "checks"),
			Actions: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ops.Action {
				return ops.Action{
					Service: speakingText().Draw(t, "service"), Action: speakingText().Draw(t, "action"),
					Success: rapid.Bool().Draw(t, "success"), Detail: looseText().Draw(t, "detail"),
				}
			}), 0, 3).Draw(t, "actions"),
			Events: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ops.Remark {
				return ops.Remark{
					Level:   rapid.SampledFrom([]ops.Level{ops.LevelInfo, ops.LevelWarning, ops.LevelCritical}).Draw(t, "level"),
					Service: looseText().Draw(t, "service"), Message: speakingText().Draw(t, "message"),
				}
			}), 0, 3).Draw(t, "events"),
			Memories: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ops.Lesson {
				return ops.Lesson{
					Category: speakingText().Draw(t, "category"), Service: looseText().Draw(t, "service"),
					Observation: speakingText().Draw(t, "observation"),
				}
			}), 0, 3).Draw(t, "memories"),
		}
		if o.Kind == ops.OutcomeEscalate {
			o.Handoff = &ops.Handoff{
				SchemaVersion: Version, RecommendedTier: from + 1, Reason: looseText().Draw(t, "reason"),
				ServicesAffected:      rapid.SliceOfN(speakingText(), 1, 3).Draw(t, "services"),
				CheckResults:          rapid.SliceOfN(anyCheck(), 1, 3).Draw(t, "handed checks"),
				InvestigationFindings: speakingText().Draw(t, "findings"), RemediationAttempted: speakingText().Draw(t, "attempts"),
				CooldownState: json.RawMessage(`{"web":{"restarts":1}}`),
			}
		}
		return o
	})
}

func anyCheck() *rapid.Generator[ops.CheckResult] {
	return rapid.Custom(func(t *rapid.T) ops.CheckResult {
		return ops.CheckResult{
			Service: speakingText().Draw(t, "service"),
			CheckType: rapid.SampledFrom([]ops.CheckType{
				ops.CheckHTTP, ops.CheckDNS, ops.CheckContainer, ops.CheckDatabase, ops.CheckService,
			}).Draw(t, "type"),
			Status:         rapid.SampledFrom([]ops.Health{ops.Healthy, ops.Healthy, ops.Degraded, ops.Down}).Draw(t, "status"),
			Error:          rapid.String().Draw(t, "error"),
			ResponseTimeMS: rapid.Ptr(rapid.Int64Range(0, 1<<53-1), true).Draw(t, "time"),
		}
	})
}

// speakingText says something, with any characters around it.
func speakingText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return rapid.String().Draw(t, "before") + rapid.SampledFrom([]string{"web", "grafana is slow", "db-1"}).Draw(t, "words") +
			rapid.String().Draw(t, "after")
	})
}

func looseText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.Just(""), rapid.Just("N/A"), speakingText())
}

func FuzzOutcome(f *testing.F) {
	for _, tier := range []ops.Tier{ops.Tier1, ops.Tier2, ops.Tier3} {
		for _, kind := range kinds {
			f.Add([]byte(OutcomeExample(tier, kind)), int(tier))
		}
	}
	f.Add([]byte(`{"outcome":"healthy","handoff":{},"summary":"...","check_results":[{"status":"down"}]}`), 1)
	f.Add([]byte(`{"schema_version":1,"schema_version":1}`), 0)
	f.Add([]byte(strings.Replace(OutcomeExample(ops.Tier2, ops.OutcomeResolved), `"summary"`, `"confidence":0.4,"summary"`, 1)), 2)
	f.Add([]byte(strings.Replace(OutcomeExample(ops.Tier1, ops.OutcomeEscalate), `"reason"`, `"confidence":1e0,"reason"`, 1)), 1)
	published, inline := compileText(f, string(OutcomeSchema())), inlines(f)
	f.Fuzz(func(t *testing.T, raw []byte, from int) {
		o, report := Outcome(raw, ops.Tier(from))
		if report.OK() != (o.SchemaVersion == Version) {
			t.Fatalf("report and outcome disagree: %+v, %+v", report, o)
		}
		if report.OK() {
			wantStable(t, o, ops.Tier(from), published, inline[min(max(ops.Tier(from), ops.Tier1), ops.LastTier)])
		}
	})
}

// inlines are the inline schemas of the tiers.
func inlines(t testing.TB) map[ops.Tier]*jsonschema.Schema {
	out := map[ops.Tier]*jsonschema.Schema{}
	for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
		out[tier] = compileText(t, Inline(tier))
	}
	return out
}
