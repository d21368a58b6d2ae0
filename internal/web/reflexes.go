package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"claudeops/internal/api"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
)

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
	return func(w http.ResponseWriter, r *http.Request) {
		got, err := s.desk.SwitchReflex(r.Context(), by(r), rowID(r), to, reason(r))
		again := func(problem string) { s.errorPage(w, r, http.StatusUnprocessableEntity, problem) }
		switch {
		case refused(err, "Nothing was changed.", again):
		case err != nil:
			s.fail(w, r, "reflex", err)
		default:
			http.Redirect(w, r, servicePath(got.Environment, got.Service)+"?done=reflex", http.StatusSeeOther)
		}
	}
}
