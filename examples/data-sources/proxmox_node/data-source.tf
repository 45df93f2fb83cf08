data "proxmox_node" "first" {
  node = "pve1"
}

output "node" {
  value = data.proxmox_node.first
}
