package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"claudeops/internal/api"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
)

// trustView is how far a service is trusted, with the buttons that change it.
type trustView struct {
	api.Trust
	Change []question
	// SetCeiling is the field of the form that changes the highest level in the configuration; nil if the visitor may not.
	SetCeiling *input
}

// addTrust adds how far the service is trusted, if it is configured.
func (s *server) addTrust(ctx context.Context, view *serviceDetail, environment, name string) error {
	t, err := s.desk.TrustedService(ctx, environment, name)
	if _, unknown := desk.Problem(err); unknown {
		return nil
	}
	if err != nil {
		return err
	}
	view.Trust = &trustView{Trust: api.TrustRow(t)}
	levels := ops.TrustLevels()
	at := slices.Index(levels, ops.Trust(view.Trust.Level))
	if up, more := t.Level.Next(); more && !t.Ceiling.Below(up) {
		view.Trust.Change = append(view.Trust.Change, trustQuestion(t, up, "Raise", "arrow-up"))
	}
	if view.AddProbe != "" {
		view.Trust.SetCeiling = new(trustField(string(t.Ceiling)))
	}
	if at > 0 {
		view.Trust.Change = append(view.Trust.Change, trustQuestion(t, levels[at-1], "Lower", "arrow-down"))
	}
	return nil
}

func trustQuestion(t desk.Trusted, to ops.Trust, verb, icon string) question {
	return question{
		ID: "trust-" + string(to), Button: fmt.Sprintf("%s to %s", verb, to), Icon: icon, Style: "plain",
		Title: fmt.Sprintf("%s the trust in %s to %s?", verb, plain(t.Service), to), Text: trustMeans(to),
		Action: "/services/trust", Yes: verb, No: "Cancel",
		Hidden: map[string]string{"environment": t.Environment, "service": t.Service, "level": string(to)},
		Fields: []input{{Name: "reason", Label: "Reason", Kind: "area", Max: desk.MaxReason}},
	}
}

// trustMeans says what a level lets happen.
func trustMeans(t ops.Trust) string {
	switch t {
	case ops.TrustWatch:
		return "No agent starts for it. Probes run, and people are told."
	case ops.TrustSuggest:
		return "Tier 1 looks and proposes. Nothing is changed."
	case ops.TrustAsk:
		return "Every repair starts after approval."
	case ops.TrustRepair:
		return "Tier 2 repairs. Tier 3 starts after approval."
	case ops.TrustFull:
	}
	return "Tier 2 and Tier 3 repair without approval."
}

// setTrust changes how far a service is trusted.
func (s *server) setTrust(r *http.Request) (string, error) {
	environment, service := r.PostFormValue("environment"), r.PostFormValue("service")
	_, err := s.desk.Trust(r.Context(), by(r), environment, service, r.PostFormValue("level"), reason(r))
	return servicePath(environment, service) + "?done=trusted", err
}

// reflexView is an earned reflex, with the buttons that switch it.
type reflexView struct {
	api.EarnedReflex
	Case   string
	Change []question
}

// addReflexes adds the earned reflexes of a service.
func (s *server) addReflexes(ctx context.Context, view *serviceDetail, environment, name string) error {
	all, err := s.desk.Reflexes(ctx, environment, name)
	if _, unknown := desk.Problem(err); unknown {
		return nil
	}
	for _, r := range all {
		v := reflexView{EarnedReflex: api.ReflexRow(r), Case: r.Case()}
		if r.State != ops.ReflexOn {
			v.Change = append(v.Change, reflexQuestion(r, "enable", "Make it a reflex", "check",
				"From now on the supervisor does this without an agent: "+strings.Join(r.Does, "; ")))
		}
		if r.State != ops.ReflexIsOff {
			no := map[ops.ReflexState]string{ops.ReflexAsked: "No", ops.ReflexOn: "Switch off"}[r.State]
			v.Change = append(v.Change, reflexQuestion(r, "disable", no, "x", "Agents repair it, as before."))
		}
		view.Reflexes = append(view.Reflexes, v)
	}
	return err
}

func reflexQuestion(r desk.EarnedReflex, verb, button, icon, text string) question {
	return question{
		ID: fmt.Sprintf("reflex-%d-%s", r.ID, verb), Button: button, Icon: icon, Style: "plain",
		Title: fmt.Sprintf("%s: %s?", button, plain(r.Words())),
		Text:  plain(text), Action: fmt.Sprintf("/reflexes/%d/%s", r.ID, verb), Yes: button, No: "Cancel",
		Fields: []input{{Name: "reason", Label: "Reason", Kind: "area", Max: desk.MaxReason}},
	}
}

// switchReflex switches an earned reflex on or off.
func (s *server) switchReflex(to ops.ReflexState) http.HandlerFunc {
	return s.does("reflex", func(r *http.Request) (string, error) {
		got, err := s.desk.SwitchReflex(r.Context(), by(r), rowID(r), to, reason(r))
		return servicePath(got.Environment, got.Service) + "?done=reflex", err
	})
}
