package config

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
)

func priceFields(p *ops.Price, window *int64) []field {
	return []field{
		value("input", &p.Input, dollarsKind(), "US dollars per million input tokens.").must(),
		value("output", &p.Output, dollarsKind(), "US dollars per million output tokens.").must(),
		value("cache_read", &p.CacheRead, dollarsKind(), "US dollars per million tokens read from the cache.").orElse("as `input`"),
		value("cache_write", &p.CacheWrite, dollarsKind(), "US dollars per million tokens written to the cache.").orElse("as `input`"),
		value("context_window", window, intKind(1000, int64(mostTokens)),
			"Context window in tokens. A value that the agent CLI reported has priority.").orElse("200,000"),
	}
}

// pricesField is a mapping from the name of a model to its prices. Entries of the operator replace the built-in ones.
func (c *Config) pricesField() field {
	at := &c.Prices
	inner := func() []field { return priceFields(new(ops.Price), new(int64)) }
	return field{
		key: "prices", doc: "Prices of models, for agents that do not report their cost, and their context windows. See [Prices](#prices).",
		at: at, takes: "models with their prices", shown: "built in", inner: inner,
		schema: func() map[string]any {
			return map[string]any{"type": []any{"object", "null"}, "additionalProperties": objectSchema(inner())}
		},
		text: c.showPrices,
		descend: func(l *loader, n *yaml.Node, section string) {
			for _, p := range l.pairs(n, section, nil, nil) {
				key := join(section, p.name)
				if faults := pricedModel(l, p); faults != nil {
					l.problems.addFaults(key, faults)
					continue
				}
				price, window := ops.Price{}, int64(0)
				e := l.readEntry(p.value, key, priceFields(&price, &window))
				if e.has(&window) {
					if c.windows == nil {
						c.windows = map[string]int64{}
					}
					c.windows[p.name] = window
				}
				if !e.has(&price.CacheRead) {
					price.CacheRead = price.Input
				}
				if !e.has(&price.CacheWrite) {
					price.CacheWrite = price.Input
				}
				(*at)[p.name], c.ownPrices[p.name] = price, price
			}
		},
	}
}

// pricedModel checks the name of a model that is a key.
func pricedModel(l *loader, p pair) []fault {
	_, faults := modelKind().parse(l.places, raw{at: l.position(p.key), text: p.name})
	return faults
}

// priceTable is the built-in prices of one maker's models, as they were on a day.
type priceTable struct {
	Maker  string
	Date   string // when they were compared with the source
	Source string
	Models map[string][4]float64 // input, output, cache read, cache write
}

//go:embed prices.yaml
var pricesFile []byte

// builtInTables are list prices. They change without notice.
var builtInTables = sync.OnceValue(func() (out []priceTable) {
	if err := yaml.Unmarshal(pricesFile, &out); err != nil {
		panic(fmt.Sprintf("read built-in prices: %v", err)) // the file is a part of the program
	}
	return out
})

func (t priceTable) prices() ops.Prices {
	out := ops.Prices{}
	for model, p := range t.Models {
		out[model] = ops.Price{Input: p[0], Output: p[1], CacheRead: p[2], CacheWrite: p[3]}
	}
	return out
}

// stalePrices is the age from which a start warns of built-in prices.
const stalePrices = 180 * 24 * time.Hour

// builtInPrices are the prices of all makers.
func builtInPrices() ops.Prices {
	out := ops.Prices{}
	for _, t := range builtInTables() {
		maps.Copy(out, t.prices())
	}
	return out
}

// showPrices names the models that have a price, and how old the built-in prices are.
func (c *Config) showPrices() string {
	dates := ops.Map(builtInTables(), func(t priceTable) string { return t.Maker + " " + t.Date })
	text := "built in (" + strings.Join(dates, ", ") + ")"
	if own := slices.Sorted(maps.Keys(c.ownPrices)); len(own) > 0 {
		text += "; own: " + strings.Join(own, ",")
	}
	return text
}

// StalePrices are built-in prices that are used and old.
type StalePrices struct {
	Maker  string
	Date   string
	Source string
	Models []string // those of handlers whose price this is
}

// StalePrices returns the built-in prices that a handler depends on and that nobody has compared with their source for 180 days.
func (c *Config) StalePrices(now time.Time) []StalePrices {
	var out []StalePrices
	for _, t := range builtInTables() {
		at, err := time.Parse(time.DateOnly, t.Date)
		if err == nil && now.Sub(at) <= stalePrices {
			continue
		}
		var used []string
		prices := t.prices()
		for _, h := range c.registered() {
			_, priced := prices.Of(h.Model)
			_, own := c.ownPrices.Of(h.Model)
			if priced && !own && !slices.Contains(used, h.Model) {
				used = append(used, h.Model)
			}
		}
		if len(used) > 0 {
			out = append(out, StalePrices{Maker: t.Maker, Date: t.Date, Source: t.Source, Models: used})
		}
	}
	return out
}
