output "number" {
  value = provider::proxmox::parse_slot("scsi10").number # 10
}
