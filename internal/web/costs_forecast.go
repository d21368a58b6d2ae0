package web

import (
	"context"
	"fmt"
	"sync"
	"time"

	"claudeops/internal/api"
)

// forecastView says when a daily budget is used up at the present rate.
type forecastView struct {
	Environment string
	Rate        string
	At          stamp
}

// forecasts are the budgets that do not last.
func (m moment) forecasts(all []api.Forecast) []forecastView {
	var out []forecastView
	for _, f := range all {
		if f.GoneAt != nil {
			out = append(out, forecastView{f.Environment, dollars(&f.PerHourUSD).Text, m.stamp(*f.GoneAt)})
		}
	}
	return out
}

// forecastCache keeps the forecasts until a session ends, for at most a minute: the rate falls while nothing is spent.
type forecastCache struct {
	mu      sync.Mutex
	ended   string
	at      time.Time
	found   []api.Forecast
	checked bool
}

func (c *forecastCache) read(ctx context.Context, s *server, ended string, now time.Time) ([]api.Forecast, error) {
	minute := now.Truncate(time.Minute)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.checked && c.ended == ended && c.at.Equal(minute) {
		return c.found, nil
	}
	found, err := api.Forecasts(ctx, s.Store, s.Environments, now)
	if err != nil {
		return nil, fmt.Errorf("forecast costs: %w", err)
	}
	c.checked, c.ended, c.at, c.found = true, ended, minute, found
	return found, nil
}
