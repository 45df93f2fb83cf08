// Package adoption proves that existing VMs, disks and states of other providers and earlier releases are taken over
// as they are.
package adoption
