package api

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Image is what a container was made from.
type Image struct {
	Reference string  `json:"reference" doc:"As it was named."`
	Digest    *string `json:"digest" doc:"In its registry."`
	ID        string  `json:"id"`
}

// Updatable is a service with what is known of its image.
type Updatable struct {
	Environment string     `json:"environment"`
	Service     string     `json:"service"`
	NotUpdated  *string    `json:"not_updated" doc:"Why Claude Ops does not update it."`
	Current     *Image     `json:"current"`
	Newest      *string    `json:"newest" doc:"The digest of the same tag in the registry."`
	Newer       bool       `json:"newer" doc:"The registry has another image of the same tag."`
	Unknown     *string    `json:"unknown" doc:"Why the newest is not known."`
	LookedAt    *time.Time `json:"looked_at" doc:"At most once a day."`
	Schedule    *string    `json:"schedule"`
	Latest      *Update    `json:"latest" doc:"The latest update."`
}

// Update is one change of a service to another image.
type Update struct {
	ID          int64           `json:"id"`
	Environment string          `json:"environment"`
	Service     string          `json:"service"`
	Phase       ops.UpdatePhase `json:"phase" doc:"How far it is. Ends: kept, gone_back, stuck, unchanged, refused."`
	By          string          `json:"by" doc:"A person, or schedule."`
	To          *string         `json:"to" doc:"The image that was named."`
	Before      *Image          `json:"before"`
	After       *Image          `json:"after"`
	Kept        *string         `json:"kept" doc:"The tag that keeps the old image."`
	Touches     []string        `json:"touches" doc:"The services that are watched."`
	Result      *string         `json:"result"`
	AskedAt     time.Time       `json:"asked_at"`
	PhaseAt     time.Time       `json:"phase_at"`
	EndedAt     *time.Time      `json:"ended_at"`
}

type updatesQuery struct {
	Environment string `query:"environment" doc:"Default: the first one."`
	Service     string `query:"service" doc:"Only this one."`
}

type updateRunsQuery struct {
	Paging
	Environment string `query:"environment" doc:"Filter by environment."`
	Service     string `query:"service" doc:"Filter by service."`
}

type updateInput struct {
	Body struct {
		Environment string `json:"environment,omitempty" doc:"Default: the first one."`
		Service     string `json:"service"`
		To          string `json:"to,omitempty" doc:"An image of the same repository. Default: the newest of the same tag."`
	}
}

func (s *server) registerUpdates(api huma.API) {
	huma.Register(api, look("list-updates", "/updates", "List services with what is known of their images", "updates",
		"Services with a compose file are updated; the others say why not.", http.StatusUnprocessableEntity), s.listUpdates)
	huma.Register(api, look("list-update-runs", "/updates/runs", "List updates, newest first", "updates",
		"Which image was there before and after, and how it ended."), s.listUpdateRuns)
	huma.Register(api, look("get-update-run", "/updates/runs/{id}", "Show an update", "updates",
		"How far it is, or how it ended.", http.StatusNotFound), shown(s, "update", s.Store.Acts.Update, UpdateRow))
	huma.Register(api, start("update-service", "/updates/runs", "Update a service, or say yes to its update", "updates",
		"The daemon changes the image, watches, and goes back if something is worse than before. One at a time; what speaks against it is "+
			"a conflict.", http.StatusConflict), s.update)
}

func (s *server) listUpdates(ctx context.Context, q *updatesQuery) (*body[list[Updatable]], error) {
	rows, err := s.desk.Updatables(ctx, q.Environment, q.Service)
	return whole(s, "list updates", rows, err, UpdatableRow)
}

func (s *server) listUpdateRuns(ctx context.Context, q *updateRunsQuery) (*body[list[Update]], error) {
	return listed(s, "list updates", q.Paging, func(before int64, limit int) ([]ops.Update, error) {
		return s.Store.Acts.Updates(ctx, store.UpdateFilter{Environment: q.Environment, Service: q.Service, Before: before, Limit: limit})
	}, func(u ops.Update) int64 { return u.ID }, UpdateRow)
}

func (s *server) update(ctx context.Context, in *updateInput) (*body[Update], error) {
	u, err := s.desk.Update(ctx, by(ctx), in.Body.Environment, in.Body.Service, in.Body.To)
	return answer(s, "update", u, err, UpdateRow)
}

// UpdatableRow shows a service with what is known of its image.
func UpdatableRow(u desk.Updatable) Updatable {
	out := Updatable{
		Environment: u.Environment, Service: u.Service, NotUpdated: text(u.Not), Newer: u.Newer(), Schedule: text(u.Schedule),
	}
	if v := u.Version; v != nil {
		out.Current, out.Newest, out.Unknown, out.LookedAt = imageRow(v.Image), text(v.Newest), text(v.Unknown), ops.Ptr(v.At)
	}
	if u.Latest != nil {
		out.Latest = ops.Ptr(UpdateRow(*u.Latest))
	}
	return out
}

// UpdateRow shows an update.
func UpdateRow(u ops.Update) Update {
	out := Update{
		ID: u.ID, Environment: u.Environment, Service: u.Service, Phase: u.Phase, By: u.Person, To: text(u.To), Before: imageRow(u.Before),
		After: imageRow(u.After), Kept: text(u.Kept), Touches: append([]string{}, u.Touches...), Result: text(u.Result), AskedAt: u.AskedAt,
		PhaseAt: u.PhaseAt, EndedAt: u.EndedAt,
	}
	out.By = cmp.Or(out.By, "schedule")
	return out
}

func imageRow(i ops.Image) *Image {
	if i.ID == "" {
		return nil
	}
	return &Image{Reference: i.Ref, Digest: text(i.Digest), ID: i.ID}
}
