package report_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/decide/judge"
	"claudeops/internal/decide/recovery"
	"claudeops/internal/decide/report"
	"claudeops/internal/ops"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// published lists what a schema asks at every place of a document.
func published(s *jsonschema.Schema, required bool, at string, out map[string]report.Place) {
	p := out[at]
	p.Required = p.Required || required
	if s.Types != nil {
		p.Type = strings.Join(s.Types.ToStrings(), " ")
	}
	p.Text = p.Text || s.Pattern != nil
	p.Filled = p.Filled || s.MinItems != nil && *s.MinItems == 1 || s.MinLength != nil && *s.MinLength == 1
	if s.MaxItems != nil {
		p.Maximum = fmt.Sprint(*s.MaxItems)
	}
	if s.Minimum != nil {
		p.Minimum = s.Minimum.RatString()
	}
	if s.Maximum != nil {
		p.Maximum = s.Maximum.RatString()
	}
	var one []string
	if s.Const != nil {
		one = append(one, fmt.Sprint(*s.Const))
	}
	if s.Enum != nil {
		for _, v := range s.Enum.Values {
			one = append(one, fmt.Sprint(v))
		}
	}
	if one != nil {
		p.One = strings.Join(one, "|")
	}
	out[at] = p
	if s.Ref != nil {
		published(s.Ref, required, at, out)
	}
	for name, property := range s.Properties {
		published(property, slices.Contains(s.Required, name), at+"/"+name, out)
	}
	if s.Items2020 != nil {
		published(s.Items2020, false, at+"/*", out)
	}
}

// TestTheTypesAreThePublishedSchemas compares every field, its type, whether it is required, and its values and limits.
func TestTheTypesAreThePublishedSchemas(t *testing.T) {
	handoff, outcome := string(report.HandoffSchema()), string(report.OutcomeSchema())
	for _, c := range []struct {
		name, schema, at string
		read             reflect.Type
		tier2            bool
		stricter         string // where the reader asks for a visible character and the schema only for a character
	}{
		{name: "handoff", schema: handoff, read: reflect.TypeFor[ops.Handoff]()},
		{name: "handoff of Tier 2", schema: handoff, at: "#/$defs/from_tier_2", read: reflect.TypeFor[ops.Handoff](), tier2: true},
		{name: "outcome", schema: outcome, read: reflect.TypeFor[ops.Outcome]()},
		{name: "force-done", schema: string(recovery.ForceDoneSchema()), read: reflect.TypeFor[recovery.Ending]()},
		{name: "judge", schema: judge.Inline(), read: reflect.TypeFor[judge.Judgement](), stricter: "/reasoning"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := map[string]report.Place{}
			published(complete(t, c.schema, c.at), false, "", want)
			if p, ok := want[c.stricter]; ok && c.stricter != "" {
				p.Filled, p.Text = false, true
				want[c.stricter] = p
			}
			got := report.Places(c.read, c.tier2)
			for _, at := range slices.Sorted(maps.Keys(want)) {
				if got[at] != want[at] {
					t.Errorf("%s: the type says %+v, the schema %+v", at, got[at], want[at])
				}
				delete(got, at)
			}
			for at := range got {
				t.Errorf("%s: is in the type only", at)
			}
		})
	}
}
