package main

import (
	"math"
	"testing"
	"time"
)

func TestAnEnvironmentStaysInItsCell(t *testing.T) {
	cells := cellNames(9)
	for i := range 2000 {
		name := environmentName(i)
		before, after := cellOf(name, cells[:8]), cellOf(name, cells)
		if after != before && after != cells[8] {
			t.Fatalf("%s moves from %s to %s, which is not the new cell", name, before, after)
		}
	}
	if fewest, most, moved := spreadOver(10_000, 8); fewest < 1100 || most > 1400 || moved < 1000 || moved > 1250 {
		t.Errorf("%d to %d environments in a cell, %d move", fewest, most, moved)
	}
}

func TestTheScarcestResourceLimits(t *testing.T) {
	c := capacity{cores: 2, flushes: 1000, chain: chainCost{flushes: 20, database: 50 * time.Millisecond}}
	if rate, limit := c.chainsPerMinute(); math.Abs(rate-use*40*60) > 1e-6 || limit != "processor" {
		t.Errorf("%.0f chains in a minute by %s", rate, limit)
	}
	c.flushes = 100
	if rate, _ := c.chainsPerMinute(); math.Abs(rate-use*5*60) > 1e-6 {
		t.Errorf("%.0f chains in a minute with a slow disk", rate)
	}
}
