package situation

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	day = 24 * time.Hour
	// pricedDays is over how many days the price of a look is averaged.
	pricedDays = 30
)

// LookPrice is what a look of Tier 1 at an environment has cost lately; nil where that is not known.
func LookPrice(ctx context.Context, s *store.Store, environment string, now time.Time) (*float64, error) {
	rows, err := s.Costs(ctx, store.CostByTier, store.CostFilter{Environment: environment, Since: now.Add(-pricedDays * day)})
	if err != nil {
		return nil, err
	}
	var sum store.Cost
	for _, r := range rows {
		if r.Key == strconv.Itoa(int(ops.Tier1)) {
			sum = sum.Add(r.Cost)
		}
	}
	price := sum.USD
	if price != nil {
		price = ops.Ptr(*price / float64(max(1, sum.Reported)))
	}
	return price, nil
}

// Unprobed says who looks at the services of an environment that have no probe beside others that have one, and at what price. It is
// empty where there are none. Nobody is true if nobody looks.
func Unprobed(e ops.Environment, lookUSD *float64) (text string, nobody bool) {
	names := e.Policy.Unprobed()
	switch n := len(names); {
	case n == 0:
		return "", false
	case e.Policy.ObserveEvery == 0:
		return "nobody looks at " + ops.Listed(names) + ": no probe, and observe_every is 0", true
	case n == 1:
		return names[0] + " has no probe: " + looks(e, lookUSD), false
	default:
		return fmt.Sprintf("%d services have no probe (%s): %s", n, ops.Listed(names), looks(e, lookUSD)), false
	}
}

// UnprobedService says the same about one service.
func UnprobedService(e ops.Environment, service string, lookUSD *float64) string {
	switch {
	case !slices.Contains(e.Policy.Unprobed(), service):
		return ""
	case e.Policy.ObserveEvery == 0:
		return "Nobody looks at it: it has no probe, and observe_every is 0. Add a probe, or set observe_every."
	}
	return "It has no probe: " + looks(e, lookUSD) + "."
}

// looks says how often Tier 1 looks, and what that costs. It looks in scheduled cycles, so not more often than those start.
func looks(e ops.Environment, lookUSD *float64) string {
	every := max(e.Policy.ObserveEvery, e.Interval)
	text := "one look a day by Tier 1, "
	if every != day {
		text = fmt.Sprintf("one look every %s by Tier 1, ", Span(every))
	}
	if lookUSD == nil {
		return text + "cost unknown until the first look"
	}
	price := *lookUSD * day.Hours() / every.Hours()
	if price < 0.01 {
		return text + "less than $0.01 a day"
	}
	return text + fmt.Sprintf("about $%.2f a day", price)
}
