output "owner" {
  value = provider::proxmox::parse_volume_id("tank:vm-100-disk-0").vmid # 100
}
