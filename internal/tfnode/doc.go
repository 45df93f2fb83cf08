// Package tfnode holds the data sources proxmox_node, proxmox_nodes and proxmox_version.
package tfnode
