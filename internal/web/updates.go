package web

import (
	"context"
	"fmt"
	"net/http"

	"claudeops/internal/api"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
)

// updateView is what is known of the image of a service, with the button that updates it.
type updateView struct {
	api.Updatable
	Image string
	State string // of the latest update
	Ask   *question
}

// addUpdate adds the image of a service that can be updated.
func (s *server) addUpdate(ctx context.Context, view *serviceDetail, environment, name string) error {
	found, err := s.desk.Updatables(ctx, environment, name)
	if _, unknown := desk.Problem(err); unknown || err == nil && (len(found) == 0 || found[0].Not != "") {
		return nil
	}
	if err != nil {
		return err
	}
	u := found[0]
	v := updateView{Updatable: api.UpdatableRow(u)}
	if u.Version != nil {
		v.Image = u.Version.Image.String()
	}
	running := false
	if l := u.Latest; l != nil {
		v.State = l.Phase.String()
		running = !l.Phase.Ended() && l.Phase != ops.UpdateWaiting
	}
	if !running {
		v.Ask = &question{
			ID: "update", Button: "Update", Icon: "arrow-up", Style: "plain", Title: fmt.Sprintf("Update %s?", plain(u.Service)),
			Text:   "It gets the newest image of its tag and is watched. If a probe is worse than before, the old image comes back.",
			Action: "/services/update", Yes: "Update", No: "Cancel",
			Hidden: map[string]string{"environment": u.Environment, "service": u.Service},
			Fields: []input{{Name: "to", Label: "Another image of the same repository (optional)", Max: desk.MaxName}},
		}
	}
	view.Update = &v
	return nil
}

// updateService asks for an update.
func (s *server) updateService(w http.ResponseWriter, r *http.Request) {
	environment, service := r.PostFormValue("environment"), r.PostFormValue("service")
	u, err := s.desk.Update(r.Context(), by(r), environment, service, r.PostFormValue("to"))
	if err != nil {
		s.fail(w, r, "update", err)
		return
	}
	http.Redirect(w, r, servicePath(u.Environment, u.Service)+"?done=update", http.StatusSeeOther)
}
