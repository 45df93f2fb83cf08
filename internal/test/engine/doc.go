// Package engine plays an operation again with a fault, an interrupt, a kill or a third party at each of its requests, and judges
// each result: the provider's answer, the cluster, and how the next apply or the printed commands end it. The clusters and
// configurations are those of package rig.
package engine
