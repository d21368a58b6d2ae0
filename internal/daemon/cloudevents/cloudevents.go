package cloudevents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"claudeops/internal/failpoint"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	// keep is how long an event waits for a receiver.
	keep = 7 * 24 * time.Hour
	// overlap is how far back changes are looked for again: a transaction may commit later than the time in its rows.
	overlap = 10 * time.Minute
	// lookEvery finds changes whose wake-up was lost.
	lookEvery = time.Minute
	batch     = 50
	// mostRefusals is how often an event is sent that the receiver says is wrong.
	mostRefusals  = 5
	settleTimeout = 5 * time.Second
)

// Journal is where events are found and kept.
type Journal interface {
	BeginEvents(ctx context.Context, targets []string, oldest time.Time) (floor, mark time.Time, err error)
	NewsSince(ctx context.Context, since time.Time) (store.News, error)
	UnknownEvents(ctx context.Context, ids []string) (map[string]bool, error)
	QueueEvents(ctx context.Context, events []store.OutgoingEvent, mark time.Time) error
}

// Queue is where receivers take events from.
type Queue interface {
	EventsFor(ctx context.Context, target string, limit int) ([]store.OutgoingEvent, error)
	EventTaken(ctx context.Context, target string, id int64) error
	RemoveEvents(ctx context.Context, targets []string, before time.Time) (lost int64, err error)
	AddEvent(ctx context.Context, e ops.Event) (int64, error)
}

// Options are what a sender of events needs.
type Options struct {
	Journal Journal
	Queue   Queue
	Targets []Target
	Source  string
	Clock   ops.Clock
	Logger  *slog.Logger
	Version string
}

// Sender finds events and sends them to the targets.
type Sender struct {
	Options
	client *http.Client
	floor  time.Time // events before it are not sent
	mark   time.Time // all changes before it were found
	wait   func(failures int) time.Duration
}

// New makes a sender. Nothing is sent yet.
func New(o Options) *Sender { return &Sender{Options: o, client: newClient(), wait: backoff} }

// Run finds events after every wake-up and sends them, until ctx ends. A slow receiver does not delay the others.
func (s *Sender) Run(ctx context.Context, wake <-chan struct{}) error {
	defer s.client.CloseIdleConnections()
	if err := s.begin(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	bells := make([]chan struct{}, len(s.Targets))
	for i, t := range s.Targets {
		bells[i] = make(chan struct{}, 1)
		running.Go(func() { s.serve(ctx, t, bells[i]) })
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := s.look(ctx); err != nil && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "cannot find events for receivers; trying again", "error", err)
		}
		for _, bell := range bells {
			select {
			case bell <- struct{}{}:
			default:
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-wake:
			if !open {
				wake = nil
			}
		case <-tick.C:
		}
	}
}

func (s *Sender) names() []string {
	out := make([]string, len(s.Targets))
	for i, t := range s.Targets {
		out[i] = t.Name
	}
	return out
}

func (s *Sender) begin(ctx context.Context) error {
	var err error
	s.floor, s.mark, err = s.Journal.BeginEvents(ctx, s.names(), s.Clock().Add(-keep))
	return err
}

// look writes the events that were not found yet to the queue, and removes old ones.
func (s *Sender) look(ctx context.Context) error {
	now := s.Clock()
	oldest := now.Add(-keep)
	if s.floor.After(oldest) {
		oldest = s.floor
	}
	since := s.mark.Add(-overlap)
	if since.Before(oldest) {
		since = oldest
	}
	news, err := s.Journal.NewsSince(ctx, since)
	if err != nil {
		return err
	}
	found := facts(news)
	ids := make([]string, 0, len(found))
	for _, f := range found {
		if !f.at.Before(oldest) {
			ids = append(ids, f.id())
		}
	}
	unknown, err := s.Journal.UnknownEvents(ctx, ids)
	if err != nil {
		return err
	}
	var events []store.OutgoingEvent
	for _, f := range found {
		if !unknown[f.id()] {
			continue
		}
		e, err := f.outgoing(s.Source)
		if err != nil {
			return err
		}
		events = append(events, e)
	}
	if len(events) == 0 && now.Sub(s.mark) < overlap/2 {
		return nil
	}
	if err := s.Journal.QueueEvents(ctx, events, now); err != nil {
		return err
	}
	s.mark = now
	return s.removeOld(ctx, now)
}

func (s *Sender) removeOld(ctx context.Context, now time.Time) error {
	lost, err := s.Queue.RemoveEvents(ctx, s.names(), now.Add(-keep))
	if err != nil || lost == 0 {
		return err
	}
	return s.tell(ctx, ops.LevelWarning, fmt.Sprintf("%d events were removed after 7 days, before every receiver had taken them", lost))
}

// serve sends the events of one target in order, until ctx ends.
func (s *Sender) serve(ctx context.Context, t Target, bell <-chan struct{}) {
	failures := 0
	for {
		err := s.drain(ctx, t, failures+1)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			failures = 0
			select {
			case <-ctx.Done():
				return
			case <-bell:
			}
			continue
		}
		failures++
		wait := s.wait(failures)
		s.Logger.WarnContext(ctx, "event not taken by its receiver; trying again later",
			"target", t.Name, "attempts", failures, "in", wait, "error", err)
		if failures == 1 {
			s.note(ctx, fmt.Sprintf("events for %s cannot be delivered and are tried again: %v", t.Name, err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// backoff is how long to wait after the first, second … failed attempt.
func backoff(failures int) time.Duration {
	waits := [...]time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute}
	return failpoint.Wait("events", waits[min(max(failures, 1), len(waits))-1])
}

// drain sends what waits for a target. It ends with the first event that was not taken: the order is kept.
func (s *Sender) drain(ctx context.Context, t Target, attempt int) error {
	for {
		due, err := s.Queue.EventsFor(ctx, t.Name, batch)
		if err != nil {
			return err
		}
		for _, e := range due {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if t.wants(e) {
				if err := s.deliver(ctx, t, e, attempt); err != nil {
					return err
				}
				attempt = 1
			}
			if err := s.taken(ctx, t, e); err != nil {
				return err
			}
		}
		if len(due) < batch {
			return nil
		}
	}
}

// deliver sends one event. An event that the receiver calls wrong again and again is left out, so that others get through.
func (s *Sender) deliver(ctx context.Context, t Target, e store.OutgoingEvent, attempt int) error {
	failpoint.Hit("events.send.before")
	err := send(ctx, s.client, t, e, s.Clock(), s.Version)
	failpoint.Hit("events.send.after")
	if !errors.Is(err, errRefused) || attempt < mostRefusals {
		return err
	}
	s.note(ctx, fmt.Sprintf("event %s was left out for %s after %d attempts: %v", e.EventID, t.Name, attempt, err))
	return nil
}

// taken records that a target has an event, also during a shutdown: otherwise it would be sent again.
func (s *Sender) taken(ctx context.Context, t Target, e store.OutgoingEvent) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	return s.Queue.EventTaken(ctx, t.Name, e.ID)
}

// note records what an operator should know about a receiver.
func (s *Sender) note(ctx context.Context, message string) {
	if err := s.tell(ctx, ops.LevelWarning, message); err != nil && ctx.Err() == nil {
		s.Logger.WarnContext(ctx, "cannot record an event about a receiver", "error", err)
	}
}

func (s *Sender) tell(ctx context.Context, level ops.Level, message string) error {
	_, err := s.Queue.AddEvent(ctx, ops.Event{At: s.Clock(), Level: level, Kind: ops.EventNotification, Message: message})
	return err
}
