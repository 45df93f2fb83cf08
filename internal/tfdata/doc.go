// Package tfdata holds the data sources that show what is there beside nodes: proxmox_vm and proxmox_vms, proxmox_storages,
// proxmox_files, proxmox_import_metadata and proxmox_orphans.
package tfdata

// value is what a pointer points at, or the zero value.
func value[V any](p *V) V {
	if p == nil {
		var zero V
		return zero
	}
	return *p
}
