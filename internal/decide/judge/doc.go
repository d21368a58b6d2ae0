// Package judge checks the answer of a model that judges whether a claimed success is one.
//
// The judge belongs to another family than the worker, has no permission to change anything, and is asked only after the
// probes have had their say. It sees the goal, the recorded actions and the end state, never the worker's reasoning. It gives
// four numbers from 0 to 25; what they mean is decided here. Its own verdict, confidence and total are ignored, and an
// answer that cannot be used never passes.
package judge
